import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { eachLine, lastWords, shortForm } from './lines.ts'

/** A process that should run. Two specifications that are equal as JSON need no restart. */
export interface ProcessSpec {
  readonly title: string
  /** Our own data plane learns from its channel that we are gone. A foreign command line runs under the keeper. */
  readonly run: { readonly own: readonly string[] } | { readonly foreign: string }
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** The URL that answers when the process serves: with 200, or with any status if the process is foreign. */
  readonly readyUrl: string
}

export type ChildState = { readonly phase: 'starting' | 'ready' } | ({ readonly phase: 'failed' } & Obstacle)

export interface ChildOptions {
  /** The environment of `portico run`. The specification's wins over it. */
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly onChange: () => void
  /** Called with each line that the process writes, with its name. */
  readonly log: (line: string) => void
  /** Called with a line for people: of our own data planes only warnings and errors. */
  readonly show: (line: string) => void
  /** Removes secret values from a text that leaves this process. */
  readonly redact: (text: string) => string
}

const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 30_000
/** A process that ran this long restarts without a pause. */
const STEADY_MS = 60_000
/** A process that doesn't answer for this long is a problem. The probes continue. */
const START_TIMEOUT_MS = 30_000
const GRACE_MS = 4_000
/** The number of lines that are kept. Those that say why the process ended are reported. */
const KEPT_LINES = 50
/** The longest time that the output may stay open after the end: a process that has left the group may hold it. */
const LAST_WORDS_MS = 1_000

/**
 * A shell script that runs a foreign command and ends it when we end. Its standard input is a pipe whose other end
 * `portico run` holds. However that process ends, also by SIGKILL, the pipe closes; everything in the script's process
 * group is then asked to stop, and killed 3 seconds later. The caller starts it in its own process group.
 *
 * The traps are handlers rather than "ignore", because an ignored signal stays ignored in the command.
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

const describeExit = (code: number | null, signal: NodeJS.Signals | null) =>
  signal ? `was ended by ${signal}` : `exited with code ${code}`

/** One supervised process: started, probed until it serves, restarted when it ends, stopped with its whole group. */
export class Child {
  readonly spec: ProcessSpec
  readonly #options: ChildOptions
  readonly #stopped = new AbortController()
  #state: ChildState = { phase: 'starting' }
  #readySince = 0
  #lastLines: string[] = []
  readonly #done: Promise<void>

  constructor(spec: ProcessSpec, options: ChildOptions) {
    this.spec = spec
    this.#options = options
    this.#done = this.#keepRunning()
  }

  get state(): ChildState {
    return this.#state
  }

  /** The time since which it has been serving (milliseconds since 1970); undefined while it isn't. */
  get readySince(): number | undefined {
    return this.#state.phase === 'ready' ? this.#readySince : undefined
  }

  /** Resolves when the process and its group have ended. */
  async stop(): Promise<void> {
    this.#stopped.abort()
    await this.#done
  }

  #become(state: ChildState): void {
    if (JSON.stringify(state) === JSON.stringify(this.#state)) return
    this.#state = state
    if (state.phase === 'ready') this.#readySince = Date.now()
    if (!this.#stopped.signal.aborted) this.#options.onChange()
  }

  async #keepRunning(): Promise<void> {
    let pause = FIRST_PAUSE_MS
    while (!this.#stopped.signal.aborted) {
      const started = performance.now()
      const end = await this.#runOnce()
      if (this.#stopped.signal.aborted) return
      if (performance.now() - started > STEADY_MS) pause = FIRST_PAUSE_MS
      const said = this.#lastLines.length > 0 ? `; it said: ${lastWords(this.#lastLines)}` : ''
      this.#become({ phase: 'failed', reason: 'Crashed', message: `${end}${said}` })
      await delay(pause, undefined, { signal: this.#stopped.signal }).catch(() => undefined)
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS)
    }
  }

  /** Runs the process until it ends or is stopped. Returns how it ended. */
  async #runOnce(): Promise<string> {
    const ended = new AbortController()
    const over = AbortSignal.any([ended.signal, this.#stopped.signal])
    const child = this.#spawn()
    const exit = new Promise<string>((resolve) => {
      child.once('error', (error) => resolve(`can't be started: ${error.message}`))
      child.once('exit', (code, signal) => resolve(describeExit(code, signal)))
    })
    // The last output may be read after the process has ended.
    const closed = once(child, 'close').catch(() => undefined)
    const asking = this.#probeUntilReady(over)
    const stopping = new Promise<void>((resolve) => {
      if (this.#stopped.signal.aborted) resolve()
      this.#stopped.signal.addEventListener('abort', () => resolve(), { once: true })
    })
    await Promise.race([exit, stopping])
    if (this.#stopped.signal.aborted) await this.#end(child, exit)
    const end = await exit
    this.#signalGroup(child, 'SIGKILL')
    ended.abort()
    await asking
    await Promise.race([closed, delay(LAST_WORDS_MS, undefined, { ref: false })])
    return end
  }

  #spawn(): ChildProcess {
    const { run, cwd, env } = this.spec
    const isOwn = 'own' in run
    const [file, ...args] = (isOwn ? run.own : wrapCommand(run.foreign)) as [string, ...string[]]
    this.#lastLines = []
    const child = spawn(file, args, {
      cwd,
      env: { ...this.#options.environment, ...env },
      // A separate group, so that Ctrl-C reaches only us, and the process ends with all that it starts.
      detached: true,
      stdio: isOwn ? ['ignore', 'pipe', 'pipe', 'ipc'] : ['pipe', 'pipe', 'pipe'],
    })
    // The keeper may end before its pipe is closed.
    child.stdin?.on('error', () => undefined)
    for (const stream of [child.stdout, child.stderr]) if (stream) eachLine(stream, (line) => this.#onLine(line, isOwn))
    return child
  }

  #onLine(line: string, isOwn: boolean): void {
    if (line !== '') this.#options.log(`${this.spec.title}: ${this.#options.redact(line)}`)
    const text = isOwn ? shortForm(line) : line.trimEnd()
    // Output after the request to stop is not of interest.
    if (text === undefined || text === '' || this.#stopped.signal.aborted) return
    const shown = this.#options.redact(text)
    this.#lastLines = [...this.#lastLines, shown].slice(-KEPT_LINES)
    this.#options.show(`${this.spec.title}: ${shown}`)
  }

  async #probeUntilReady(over: AbortSignal): Promise<void> {
    const started = performance.now()
    while (!over.aborted) {
      const obstacle = await findObstacle(this.spec.readyUrl, 'foreign' in this.spec.run, over)
      if (over.aborted) return
      if (!obstacle) {
        this.#become({ phase: 'ready' })
        return
      }
      if (performance.now() - started > START_TIMEOUT_MS) this.#become({ phase: 'failed', ...obstacle })
      await delay(50, undefined, { signal: over }).catch(() => undefined)
    }
  }

  /** Asks the whole group to end, and kills it after the grace period. */
  async #end(child: ChildProcess, exit: Promise<unknown>): Promise<void> {
    this.#signalGroup(child, 'SIGTERM')
    const kill = setTimeout(() => this.#signalGroup(child, 'SIGKILL'), GRACE_MS)
    await exit
    clearTimeout(kill)
  }

  #signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
    if (child.pid === undefined) return
    try {
      process.kill(-child.pid, signal)
    } catch {
      // The group is gone.
    }
  }
}

/** A reason why something does not serve. */
export interface Obstacle {
  readonly reason: string
  readonly message: string
}

/** Probes a process. Returns why it doesn't serve, or undefined if it does. */
async function findObstacle(url: string, isAnyAnswerGood: boolean, over: AbortSignal): Promise<Obstacle | undefined> {
  const notAnswering = { reason: 'NotAnswering', message: `runs, but doesn't answer on ${url}` }
  try {
    const response = await fetch(url, {
      headers: { accept: 'application/json, text/event-stream' },
      signal: AbortSignal.any([over, AbortSignal.timeout(2000)]),
    })
    if (isAnyAnswerGood || response.ok) {
      // The body stays unread: the answer to a GET may be an event stream without end.
      await response.body?.cancel()
      return undefined
    }
    const { reason } = (await response.json()) as { reason?: unknown }
    return { reason: 'NotReady', message: `runs, but isn't ready: ${String(reason ?? response.status)}` }
  } catch {
    // The request was refused, timed out, or the answer is no JSON.
    return notAnswering
  }
}

/** Returns the command line that runs a shell command line under the keeper. */
const wrapCommand = (commandLine: string): readonly [string, ...string[]] => [
  '/bin/sh',
  '-c',
  script,
  'portico-keeper',
  commandLine,
]
