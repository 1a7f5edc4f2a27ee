# Completion of npctl for fish.

function __npctl_complete
    set -l words (commandline -opc)
    set -l token (commandline -ct)
    set -l current (string unescape -- $token; or echo -- $token)
    set -l program $words[1]
    type -q -- $program; or set program npctl
    set -l lines ($program __complete $words[2..-1] "$current" 2>/dev/null)
    set -l option (string match -r -- '^-[^=]*=' $current)
    set -l value (string sub -s (math 1 + (string length -- "$option")) -- $current)
    switch "$lines[1]"
        case :files
            __fish_complete_path "$value" | string replace -r '^' -- "$option"
        case :dirs
            __fish_complete_directories "$value" | string replace -r '^' -- "$option"
        case '*'
            printf '%s\n' $lines
    end
end

complete -c npctl -e
complete -c npctl -f -a '(__npctl_complete)'
