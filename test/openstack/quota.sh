#!/bin/bash
# Sets quotas of a project, with immediate effect:
#   ./quota.sh npctl instances=2 floatingips=0
#   ./quota.sh npctl reset
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/settings.sh"
[ -f "$CLOUDS_YAML" ] || die "no lab in $WORK; run up.sh first"
WORK="$WORK" PYTHONPATH="$here/cloud" OS_CLIENT_CONFIG_FILE="$CLOUDS_YAML" \
  exec $PYTHON "$here/cloud/fill.py" quota "$@"
