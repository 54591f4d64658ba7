import { dispatch } from './dispatch.ts'
import { keepTicksFast } from './memory.ts'

const stop = new AbortController()

/** The first signal asks to stop, the second one doesn't ask. */
function onSignal(signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP', code: number): void {
  if (stop.signal.aborted) process.exit(code)
  stop.abort(signal)
}
process.on('SIGINT', () => onSignal('SIGINT', 130))
process.on('SIGTERM', () => onSignal('SIGTERM', 143))
process.on('SIGHUP', () => onSignal('SIGHUP', 129))
// Started by `portico run`: when the channel closes, that process is gone, and this one must not outlive it.
process.on('disconnect', () => stop.abort())

// The reader of a pipe went away (`portico render … | head`): not our failure, and nobody to tell.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

keepTicksFast()

dispatch(process.argv.slice(2), {
  out: (text) => void process.stdout.write(text),
  err: (line) => void process.stderr.write(`${line}\n`),
  env: process.env,
  stop: stop.signal,
}).then(end, fail)

function end(exitCode: number): void {
  process.exitCode = exitCode
  if (process.connected) process.disconnect()
}

/** Not here, where the promise would keep it: it ends the process. */
function fail(error: unknown): void {
  process.nextTick(() => {
    throw error
  })
}
