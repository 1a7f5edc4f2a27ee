# Functions that render the templates in etc/. Sourced.

# render writes a template to its target.
render() { # template target
  mkdir -p "$(dirname "$2")"
  expand "$1" >"$2"
}

# expand prints a template, every @NAME@ replaced by the shell variable NAME.
expand() { # template
  local text name
  text=$(<"$LAB_SOURCE/etc/$1")
  while [[ $text =~ @([A-Z][A-Z0-9_]*)@ ]]; do
    name=${BASH_REMATCH[1]}
    [ -n "${!name+set}" ] || die "etc/$1 uses @$name@, which is not set"
    text=${text//"@$name@"/"${!name}"}
  done
  printf '%s\n' "$text"
}

# configure_service renders the common file of all OpenStack services and the file of this one.
configure_service() { # name
  local SERVICE=$1 DATABASE_URL LOGIN
  DATABASE_URL=$(database_url "$1")
  LOGIN=$(expand login.part)
  render common.conf "$ETC/$1/common.conf"
  render "$1.conf" "$ETC/$1/$1.conf"
}

# config_of prints the options for the configuration files of a service.
config_of() { echo "--config-file $ETC/$1/common.conf --config-file $ETC/$1/$1.conf"; }

configure_uwsgi() { # name wsgi-program port processes
  local WSGI_FILE=$2 PORT=$3 UWSGI_PROCESSES=$4
  render uwsgi.ini "$ETC/$1/uwsgi.ini"
}
