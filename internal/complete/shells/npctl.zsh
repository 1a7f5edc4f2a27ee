#compdef npctl
# Completion of npctl for zsh.

_npctl() {
  local program=${(Q)words[1]/#\~/$HOME} line text
  local -a spaced unspaced
  whence -p -- $program >/dev/null || program=npctl
  for line in "${(@f)$($program __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}"; do
    text=${line%%$'\t'*}
    case $text in
      '') continue ;;
      :files) [[ $PREFIX != -*=* ]] || compset -P '*='; _files; return ;;
      :dirs) [[ $PREFIX != -*=* ]] || compset -P '*='; _files -/; return ;;
    esac
    # _describe splits at the first colon that is not escaped
    line=${text//:/\\:}:${${line#$text}#$'\t'}
    case $text in
      *[=/]) unspaced+=($line) ;;
      *) spaced+=($line) ;;
    esac
  done
  local found=1
  (( ! $#spaced )) || { _describe npctl spaced && found=0 }
  (( ! $#unspaced )) || { _describe npctl unspaced -S '' && found=0 }
  return found
}

# As a file of $fpath this is the function itself; sourced, it registers it.
if [[ $funcstack[1] == _npctl ]]; then
  _npctl "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
  compdef _npctl npctl
fi
