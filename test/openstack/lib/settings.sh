# Settings and paths. Every script sources it; it only sets variables.

LAB_SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
WORK=${NPCTL_OPENSTACK_WORK:-${TMPDIR:-/tmp}/npctl-openstack}
WORK=$(realpath -m "$WORK")

ADDRESS=127.0.0.1
REGION=RegionOne
PASSWORD=lab # every user's: the lab listens on loopback only

PORT_KEYSTONE=${NPCTL_OPENSTACK_PORT_KEYSTONE:-5000}
PORT_GLANCE=${NPCTL_OPENSTACK_PORT_GLANCE:-9292}
PORT_NOVA=${NPCTL_OPENSTACK_PORT_NOVA:-8774}
PORT_PLACEMENT=${NPCTL_OPENSTACK_PORT_PLACEMENT:-8778}
PORT_NEUTRON=${NPCTL_OPENSTACK_PORT_NEUTRON:-9696}
PORT_CINDER=${NPCTL_OPENSTACK_PORT_CINDER:-8776}
PORT_RABBITMQ=${NPCTL_OPENSTACK_PORT_RABBITMQ:-25673}
PORT_ERLANG=${NPCTL_OPENSTACK_PORT_ERLANG:-25674}
PORT_EPMD=${NPCTL_OPENSTACK_PORT_EPMD:-24369}
PORT_MEMCACHED=${NPCTL_OPENSTACK_PORT_MEMCACHED:-21211}

TOKEN_SECONDS=${NPCTL_OPENSTACK_TOKEN_SECONDS:-3600}
# Size of each emulated host; flavor "toobig" needs a larger disk.
HOST_VCPUS=${NPCTL_OPENSTACK_HOST_VCPUS:-2000}
HOST_MEMORY_MB=${NPCTL_OPENSTACK_HOST_MEMORY_MB:-4000000}
HOST_DISK_GB=${NPCTL_OPENSTACK_HOST_DISK_GB:-600000}

ETC=$WORK/etc LOG=$WORK/log RUN=$WORK/run DATA=$WORK/data
FAULTS=$WORK/faults.json
MYSQL_SOCKET=$WORK/mysql.sock
AUTH_URL=http://$ADDRESS:$PORT_KEYSTONE/v3
TRANSPORT_URL=rabbit://lab:lab@$ADDRESS:$PORT_RABBITMQ/
CLOUDS_YAML=$WORK/clouds.yaml

COMPUTES="1 2" # host "computeN" is the only one of zone "azN"

# Names of the processes, in the order of their start. nova-compute is last:
# without a conductor it waits ten seconds before it retries.
BACKENDS="mariadb memcached epmd rabbitmq"
PROCESSES="$BACKENDS keystone placement nova-conductor glance neutron nova-scheduler nova-api
  cinder-api cinder-scheduler cinder-volume nova-compute1 nova-compute2"

# Debian's programs and Python, independent of the caller's PATH, virtualenv and
# OpenStack environment; no proxy for loopback.
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHON=/usr/bin/python3
export no_proxy=127.0.0.1,localhost NO_PROXY=127.0.0.1,localhost
export PYTHONDONTWRITEBYTECODE=1 # no __pycache__ in the source tree
unset PYTHONHOME PYTHONPATH VIRTUAL_ENV ${!OS_@}

say() { printf '[%3d s] %s\n' "$SECONDS" "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
