# run COMMAND [ARGUMENT...]: becomes the command. Where STOKER_HOLD is 1 it waits to be scaled down
# once the command is done: a StatefulSet starts a container again whatever its end, and the work
# would begin anew. A signal reaches the command, and its status is the pod's.
run() {
    [ "${STOKER_HOLD:-0}" = 1 ] || exec "$@"
    child='' stopped=0 status=0
    trap 'stopped=1; [ -z "$child" ] || kill "$child" 2>/dev/null || true' TERM INT
    "$@" &
    child=$!
    wait "$child" || status=$?
    while kill -0 "$child" 2>/dev/null; do # a signal ends the wait, not the program
        status=0
        wait "$child" || status=$?
    done
    [ "$status" = 0 ] && [ "$stopped" = 0 ] || exit "$status"
    say "done; waiting to be scaled down"
    trap 'kill "$child" 2>/dev/null; exit 0' TERM INT
    while :; do
        sleep 3600 &
        child=$!
        wait "$child" || true
    done
}
