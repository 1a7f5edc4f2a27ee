#!/bin/bash
# Creates a certificate authority and certificates for ZooKeeper and its clients (npctl, Zuul, Nodepool), with openssl.
#   ./make-certificates.sh DIRECTORY NAME[,NAME]...
# Each argument becomes one certificate for servers and clients, valid for all its names: host names or IP addresses. Files
# have the first name. Existing files stay, so later runs add hosts; delete NAME.pem to renew a certificate.
#
#   ca.pem, ca.key       the authority; keep ca.key on one machine only
#   NAME.pem, NAME.key   a certificate and its key: cert and key of npctl's tls block
#   NAME.store.pem       both in one file: ssl.keyStore.location of a ZooKeeper server
#
#   NPCTL_CERTIFICATE_DAYS   validity of a certificate (default 825); the authority is valid for ten years
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2,12p "$0"; exit 2; }
mkdir -p "$1"
cd "$1"
shift
umask 077
# openssl writes its progress to stderr; it is of interest only after an error
log=$(mktemp)
trap 'status=$?; [ "$status" = 0 ] || cat "$log" >&2; rm -f "$log" request.tmp key.tmp extensions.tmp' EXIT

published() { # file, mode: give a complete file its name
  chmod "$2" "$1.tmp"
  mv "$1.tmp" "$1"
}

if [ ! -e ca.pem ]; then
  openssl req -x509 -newkey rsa:3072 -nodes -days 3650 -subj '/CN=ZooKeeper test authority' -keyout ca.key -out ca.pem.tmp 2>"$log"
  published ca.pem 644
fi
for names; do
  file=${names%%,*}
  [[ $file =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || { printf '%s is not a host name or an IPv4 address\n' "$file" >&2; exit 2; }
  [ ! -e "$file.pem" ] || continue
  subject=()
  for name in ${names//,/ }; do
    if [[ $name =~ ^[0-9.]+$ || $name = *:* ]]; then subject+=("IP:$name"); else subject+=("DNS:$name"); fi
  done
  printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\nkeyUsage=digitalSignature,keyEncipherment\n' \
    "$(IFS=,; printf '%s' "${subject[*]}")" >extensions.tmp
  openssl req -newkey rsa:3072 -nodes -keyout key.tmp -out request.tmp -subj "/CN=$file" 2>"$log"
  openssl x509 -req -in request.tmp -CA ca.pem -CAkey ca.key -CAcreateserial -days "${NPCTL_CERTIFICATE_DAYS:-825}" \
    -extfile extensions.tmp -out "$file.pem.tmp" 2>"$log"
  cat key.tmp "$file.pem.tmp" >"$file.store.pem"
  mv key.tmp "$file.key"
  published "$file.pem" 644
done
