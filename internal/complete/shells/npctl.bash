# Completion of npctl for bash; the package bash-completion is not needed.

_npctl() {
  # The words up to the cursor, joined again where bash split them at = and :
  local rest=${COMP_LINE:0:COMP_POINT} words=() i word program=${1/#\~/$HOME}
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    ((i < COMP_CWORD)) || word=${rest#"${rest%%[![:space:]]*}"}
    if ((i == 0)) || [[ -z $rest || $rest == [[:space:]]* ]]; then
      words+=("$word")
    else
      words[${#words[@]} - 1]+=$word
    fi
    rest=${rest#"${rest%%[![:space:]]*}"}
    rest=${rest#"$word"}
  done
  type -P -- "$program" >/dev/null || program=npctl

  local whole=${words[${#words[@]} - 1]} line IFS=$'\n'
  local before=${whole%"$2"} # what readline does not replace
  COMPREPLY=()
  for line in $("$program" __complete "${words[@]:1}" 2>/dev/null); do
    line=${line%%$'\t'*}
    case $line in
      :files) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$2")) ;;
      :dirs) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$2")) ;;
      *) COMPREPLY+=("${line#"$before"}") ;;
    esac
  done
  case ${COMPREPLY[0]-} in
    *= | */) compopt -o nospace 2>/dev/null ;;
  esac
}

complete -F _npctl npctl
