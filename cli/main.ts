import { writeSync } from 'node:fs'
import { dispatch } from './dispatch.ts'
import { keepTicksFast } from './memory.ts'

const stop = new AbortController()

/** Handles signals: the first one requests a stop, the second one ends the process at once. */
function onSignal(signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP', code: number): void {
  if (stop.signal.aborted) process.exit(code)
  stop.abort(signal)
}
process.on('SIGINT', () => onSignal('SIGINT', 130))
process.on('SIGTERM', () => onSignal('SIGTERM', 143))
process.on('SIGHUP', () => onSignal('SIGHUP', 129))
// `portico run` starts this process with a channel. It closes when the parent has ended, which this process must not
// outlive.
process.on('disconnect', () => stop.abort())

// The reader of a pipe has closed it (`portico render … | head`). That is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

let isCrashing = false
// Node would print the whole error, with all its properties.
process.on('uncaughtException', (error) => {
  if (isCrashing) return
  isCrashing = true
  import('./crash.ts')
    .then(({ describeCrash }) => writeSync(2, `${describeCrash(error)}\n`))
    .finally(() => process.exit(1))
    .catch(() => undefined)
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

/** Ends the process. Here a rejected promise must not be kept. */
function fail(error: unknown): void {
  process.nextTick(() => {
    throw error
  })
}
