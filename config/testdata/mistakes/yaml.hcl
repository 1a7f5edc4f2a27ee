labels:
  - name: debian
providers:
  - name: x
    cloud: y
