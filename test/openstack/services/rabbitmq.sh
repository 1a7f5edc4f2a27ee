# RabbitMQ and the Erlang port mapper it needs. Sourced.
# Three settings make both listen on loopback only.

rabbitmq_configure() { render rabbitmq.conf "$ETC/rabbitmq/rabbitmq.conf"; }

rabbitmq_start() {
  mkdir -p "$DATA/rabbitmq" "$WORK/home"
  start epmd "$PORT_EPMD" env ERL_EPMD_ADDRESS="$ADDRESS" \
    epmd -address "$ADDRESS" -port "$PORT_EPMD"
  start rabbitmq "$PORT_RABBITMQ" env \
    HOME="$WORK/home" \
    ERL_EPMD_ADDRESS="$ADDRESS" \
    ERL_EPMD_PORT="$PORT_EPMD" \
    RABBITMQ_NODENAME=npctl@localhost \
    RABBITMQ_DIST_PORT="$PORT_ERLANG" \
    RABBITMQ_CONF_ENV_FILE="$ETC/rabbitmq/none" \
    RABBITMQ_CONFIG_FILE="$ETC/rabbitmq/rabbitmq.conf" \
    RABBITMQ_ADVANCED_CONFIG_FILE="$ETC/rabbitmq/none.config" \
    RABBITMQ_ENABLED_PLUGINS_FILE="$ETC/rabbitmq/enabled_plugins" \
    RABBITMQ_MNESIA_BASE="$DATA/rabbitmq" \
    RABBITMQ_PID_FILE="$DATA/rabbitmq/pid" \
    RABBITMQ_LOG_BASE="$LOG" \
    RABBITMQ_SERVER_ERL_ARGS="+S 2:2 +sbwt none" \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}" \
    /usr/lib/rabbitmq/bin/rabbitmq-server
}

rabbitmq_wait() { wait_for rabbitmq listening "$PORT_RABBITMQ"; }
