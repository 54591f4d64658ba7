/**
 * A shell script that runs a foreign command and takes it down with us. Its standard input is a pipe whose other end
 * `portico run` holds; however that process ends, also by SIGKILL, the pipe closes, and everything in the script's
 * process group is asked to stop, and killed 3 seconds later. The caller starts it in a process group of its own.
 *
 * The traps are handlers rather than "ignore", because what is ignored stays ignored in the command.
 */
const script = `
trap : TERM INT HUP
exec 3<&0
sh -c "$1" </dev/null 3<&- &
command=$!
(
  trap : TERM
  cat <&3 >/dev/null
  kill -TERM 0
  tries=0
  while kill -0 "$command" 2>/dev/null && [ "$tries" -lt 30 ]; do tries=$((tries + 1)); sleep 0.1; done
  kill -KILL 0
) &
exec 3<&-
while :; do
  wait "$command"
  code=$?
  kill -0 "$command" 2>/dev/null || exit "$code"
done
`

/** The command line that runs a shell command line under the keeper. */
export const keptCommand = (commandLine: string): readonly [string, ...string[]] => [
  '/bin/sh',
  '-c',
  script,
  'portico-keeper',
  commandLine,
]
