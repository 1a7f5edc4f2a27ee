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

# read_machine ID sets machine and owner. Others may copy both files, so the second one names the machine: a copy has no owner and
# no tags. A file that describes another machine is none.
read_machine() {
  named='' owner=''
  read -r machine 2>/dev/null <"$root/$1.json" || return 1 # deleted in the meantime, or no machine at all
  case $machine in "{\"id\": \"$1\","*) ;; *) return 1 ;; esac
  read -r named owner 2>/dev/null <"$root/$1.owner" || :
  [ "$named" != "$1" ] || return 0
  owner=
  case $machine in *', "tags": '*) machine="${machine%, \"tags\": *}}" ;; esac
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
      echo "$id $NPCTL_OWNER" >"$root/$id.owner.$$"
      mv "$root/$id.owner.$$" "$root/$id.owner"
      printf '{"id": "%s", "name": "%s", "status": "ready", "created": "%s", "flavor": "%s", "resources": %s, %s, "tags": %s}\n' \
        "$id" "$NPCTL_HOSTNAME" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$NPCTL_LABEL_FLAVOR" "$resources" \
        '"addresses": {"interface": "127.0.0.1", "private_ipv4": "127.0.0.1"}, "login": {"username": "zuul"}' "$NPCTL_TAGS" >"$root/$id.$$"
      mv "$root/$id.$$" "$root/$id.json" # a list sees the whole machine or none
    fi
    read -r machine <"$root/$id.json"
    printf '{"instance": %s}\n' "$machine"
    ;;
  delete)
    if read_machine "$NPCTL_INSTANCE"; then
      [ "$owner" = "$NPCTL_OWNER" ] || error not_ours 'the machine belongs to another record'
      rm -f "$root/$NPCTL_INSTANCE.json" "$root/$NPCTL_INSTANCE.owner"
    fi
    echo '{}'
    ;;
  list)
    separator='{"instances": ['
    for file in "$root"/*.json; do
      id=${file##*/}
      read_machine "${id%.json}" || continue
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
