import type { ReportedBackend } from '../../../dataplane/config/status.ts'
import { clashesIn } from '../../model/clashes.ts'
import { backendsIn, hasAskedAll } from './asked-backends.ts'
import { toldStatus } from './reported-status.ts'

/** Between two questions (milliseconds). */
const PAUSE_MS = 1_000
/** The same while somebody waits for what the answer will be. */
const SHORT_PAUSE_MS = 50

/** What a gateway is to have done before it counts as ready. */
interface Expected {
  /** Hash of the configuration that it is to have in force. */
  readonly config: string | undefined
  /** When its process came up (milliseconds since 1970); undefined while it isn't. */
  readonly upSince: number | undefined
  /** When the servers that run here came up, by the origin of their URL (milliseconds since 1970). */
  readonly servers: ReadonlyMap<string, number>
}

interface Look {
  /** When it was asked (milliseconds since 1970). */
  readonly at: number
  readonly config: unknown
  readonly backends: readonly ReportedBackend[]
  readonly clashes: readonly string[]
}

/**
 * Asks a gateway again and again how it stands with its backends: which names of tools clash, for backends may change
 * them at any time, and whether it has asked every server that is up, for all start at once and in no order.
 */
export class GatewayWatch {
  readonly #adminUrl: string
  readonly #expected: () => Expected
  readonly #onChange: () => void
  #last: Look | undefined
  #timer: NodeJS.Timeout | undefined
  #isResting = false
  #isStopped = false

  constructor(adminUrl: string, options: { readonly expected: () => Expected; readonly onChange: () => void }) {
    this.#adminUrl = adminUrl
    this.#expected = options.expected
    this.#onChange = options.onChange
    this.#askLater()
  }

  get clashes(): readonly string[] {
    return this.#last?.clashes ?? []
  }

  /** Whether it has asked every server that is up, as far as is known. */
  get hasAskedAll(): boolean {
    const { config, upSince, servers } = this.#expected()
    const last = this.#last
    if (last === undefined || upSince === undefined || last.at < upSince) return false
    return (config === undefined || last.config === config) && hasAskedAll(last.backends, servers)
  }

  /** Asks soon where the answer is waited for: something around it has changed. */
  lookAgain(): void {
    if (this.#isResting && !this.hasAskedAll) this.#askLater()
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  #askLater(): void {
    clearTimeout(this.#timer)
    if (this.#isStopped) return
    this.#isResting = this.hasAskedAll
    const ask = () => {
      // What it can't make sense of it asks for again.
      this.#ask().catch(() => this.#askLater())
    }
    this.#timer = setTimeout(ask, this.#isResting ? PAUSE_MS : SHORT_PAUSE_MS).unref()
  }

  async #ask(): Promise<void> {
    this.#isResting = false
    const look = await lookAt(this.#adminUrl)
    if (this.#isStopped) return
    // Where nobody answers, what was known last holds.
    if (look !== undefined) this.#take(look)
    this.#askLater()
  }

  #take(look: Look): void {
    const told = () => [this.hasAskedAll, ...this.clashes].join()
    const before = told()
    this.#last = look
    if (told() !== before) this.#onChange()
  }
}

async function lookAt(adminUrl: string): Promise<Look | undefined> {
  const at = Date.now()
  const status = await toldStatus(adminUrl)
  const backends = status && backendsIn(status)
  return backends && { at, config: status.config, backends, clashes: clashesIn(status) }
}
