#!/bin/sh
# A driver for npctl in POSIX sh. A machine is a file, so it shows the protocol and nothing else: replace the five calls
# below "the cloud" with those of yours. docs/drivers/external.md explains each line.
set -eu
root=${NPCTL_SETTING_ROOT:-$NPCTL_DIRECTORY/machines}

# error KIND MESSAGE responds that npctl's request failed and that nothing was done.
error() {
  printf '{"error": {"kind": "%s", "message": "%s", "nothing_done": true}}\n' "$1" "$2"
  exit 0
}

# size sets the resources of the flavor.
size() {
  case ${NPCTL_LABEL_FLAVOR:-} in
    small) resources='{"instances": 1, "cores": 1, "ram": 2048}' ;;
    large) resources='{"instances": 1, "cores": 8, "ram": 16384}' ;;
    *) error rejected 'there is no such flavor' ;;
  esac
}

# count sets n to the number of machines.
count() {
  set -- "$root"/*.json
  n=$#
  [ -e "$1" ] || n=0
}

case $NPCTL_CALL in
  describe)
    cat <<'END'
{"npctl_protocols": [1], "program": "machines as files", "abilities": ["quota", "resolve_offer", "console"],
 "provider": [{"name": "root", "doc": "directory of the machines"},
              {"name": "max", "type": "number", "doc": "quota of machines"}],
 "label": [{"name": "flavor", "required": true, "one_of": ["small", "large"], "doc": "size of the machine"},
           {"name": "image", "required": true, "doc": "its operating system"}]}
END
    ;;
  open)
    case $root in *[!A-Za-z0-9/._-]* | [!/]*) error rejected 'the setting root is no plain absolute path' ;; esac
    mkdir -p "$root" || error rejected 'the directory root cannot be created'
    printf '{"location": "%s"}\n' "$root"
    ;;
  resolve_offer)
    size
    case ${NPCTL_LABEL_IMAGE:-} in
      debian | ubuntu) printf '{"offer": {"flavor": "%s", "resources": %s}}\n' "$NPCTL_LABEL_FLAVOR" "$resources" ;;
      *) echo '{"problems": [{"setting": "image", "detail": "there is no such image", "suggestions": ["debian", "ubuntu"]}]}' ;;
    esac
    ;;

  # The cloud.
  create) # the ID comes from the owner, so a repeated call finds the machine of the first one
    id=$(printf %s "$NPCTL_OWNER" | tr / _)
    if [ ! -e "$root/$id.json" ]; then
      size
      count
      [ "$n" -lt "${NPCTL_SETTING_MAX:-1000}" ] || error quota 'the quota of machines is exhausted'
      echo "$NPCTL_OWNER" >"$root/$id.owner"
      printf '{"id": "%s", "name": "%s", "status": "ready", "created": "%s", "tags": %s, "flavor": "%s", "resources": %s, %s}\n' \
        "$id" "$NPCTL_HOSTNAME" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$NPCTL_TAGS" "$NPCTL_LABEL_FLAVOR" "$resources" \
        '"addresses": {"interface": "127.0.0.1", "private_ipv4": "127.0.0.1"}, "login": {"username": "zuul"}' >"$root/$id.$$"
      mv "$root/$id.$$" "$root/$id.json" # a list sees the whole machine or none
    fi
    read -r machine <"$root/$id.json"
    printf '{"instance": %s}\n' "$machine"
    ;;
  delete)
    owner=
    [ ! -e "$root/$NPCTL_INSTANCE.owner" ] || read -r owner <"$root/$NPCTL_INSTANCE.owner"
    if [ -e "$root/$NPCTL_INSTANCE.json" ]; then
      [ "$owner" = "$NPCTL_OWNER" ] || error not_ours 'the machine belongs to another record'
      rm -f "$root/$NPCTL_INSTANCE.json" "$root/$NPCTL_INSTANCE.owner"
    fi
    echo '{}'
    ;;
  list)
    separator='{"instances": ['
    for file in "$root"/*.json; do
      read -r machine 2>/dev/null <"$file" || continue # deleted in the meantime, or no machine at all
      printf '%s\n%s' "$separator" "$machine"
      separator=,
    done
    [ "$separator" = , ] || printf '%s' "$separator"
    echo ']}'
    ;;
  quota)
    count
    printf '{"quota": {"limit": {"instances": %s}, "used": {"instances": %s}}}\n' "${NPCTL_SETTING_MAX:-1000}" "$n"
    ;;
  console)
    [ -e "$root/$NPCTL_INSTANCE.json" ] || error rejected 'there is no such machine'
    printf '%s\n' '{"console": "Welcome.\n"}' # echo would interpret the \n
    ;;
  *)
    echo "unknown call $NPCTL_CALL" >&2
    exit 1
    ;;
esac
