import {
  isReportedBackend,
  isReportedStatus,
  type ReportedBackend,
  type ReportedStatus,
} from '../../../dataplane/config/status.ts'
import { problemsIn, type ReportedProblems } from '../../model/reported.ts'

const TIMEOUT_MS = 2_000

/** Reads `/status` of a data plane on this machine. Returns undefined if it gives no valid answer. */
export async function fetchStatus(adminUrl: string): Promise<ReportedStatus | undefined> {
  try {
    const response = await fetch(`${adminUrl}/status`, { signal: AbortSignal.timeout(TIMEOUT_MS) })
    const status: unknown = await response.json()
    return isReportedStatus(status) ? status : undefined
  } catch {
    // It is not up yet or has ended. The caller tries again.
    return undefined
  }
}

/** The time between two polls (milliseconds). */
const PAUSE_MS = 1_000
/** The same while somebody waits for the result. */
const SHORT_PAUSE_MS = 50

/** The conditions under which a gateway counts as ready. */
interface Expected {
  /** The hash of the configuration that must be in force. */
  readonly config: string | undefined
  /** The time when its process came up (milliseconds since 1970); undefined while it isn't up. */
  readonly upSince: number | undefined
  /** The times when the local servers came up, by the origin of their URL (milliseconds since 1970). */
  readonly servers: ReadonlyMap<string, number>
}

/** The relevant part of a gateway's `/status`. */
interface GatewayReport {
  /** The time of the request (milliseconds since 1970). */
  readonly at: number
  readonly config: unknown
  readonly backends: readonly ReportedBackend[]
  readonly problems: ReportedProblems
}

/**
 * Polls a gateway for its problems, such as clashing tool names, since backends may change them at any time. It also
 * polls whether the gateway has tried every server that is up, since all start at once and in no order.
 */
export class GatewayPoller {
  readonly #adminUrl: string
  readonly #expected: () => Expected
  readonly #onChange: () => void
  #last: GatewayReport | undefined
  #timer: NodeJS.Timeout | undefined
  #isResting = false
  #isStopped = false

  constructor(adminUrl: string, options: { readonly expected: () => Expected; readonly onChange: () => void }) {
    this.#adminUrl = adminUrl
    this.#expected = options.expected
    this.#onChange = options.onChange
    this.#schedule()
  }

  get problems(): ReportedProblems {
    return this.#last?.problems ?? {}
  }

  /** True if it has tried every server that is up, as far as is known. */
  get hasTriedAll(): boolean {
    const { config, upSince, servers } = this.#expected()
    const last = this.#last
    if (last === undefined || upSince === undefined || last.at < upSince) return false
    return (config === undefined || last.config === config) && hasTriedAll(last.backends, servers)
  }

  /** Polls soon if somebody waits for the result, because something around the gateway has changed. */
  pollSoon(): void {
    if (this.#isResting && !this.hasTriedAll) this.#schedule()
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    clearTimeout(this.#timer)
    if (this.#isStopped) return
    this.#isResting = this.hasTriedAll
    const poll = () => {
      // An invalid answer is requested again.
      this.#poll().catch(() => this.#schedule())
    }
    this.#timer = setTimeout(poll, this.#isResting ? PAUSE_MS : SHORT_PAUSE_MS).unref()
  }

  async #poll(): Promise<void> {
    this.#isResting = false
    const report = await pollGateway(this.#adminUrl)
    if (this.#isStopped) return
    // Without an answer, the last known state holds.
    if (report !== undefined) this.#accept(report)
    this.#schedule()
  }

  #accept(report: GatewayReport): void {
    const state = () => JSON.stringify([this.hasTriedAll, this.problems])
    const before = state()
    this.#last = report
    if (state() !== before) this.#onChange()
  }
}

async function pollGateway(adminUrl: string): Promise<GatewayReport | undefined> {
  const at = Date.now()
  const status = await fetchStatus(adminUrl)
  const backends = status && readBackends(status)
  return backends && { at, config: status.config, backends, problems: problemsIn([status]) }
}

/** Returns the backends of a gateway's `/status`, or undefined if they have another form than a gateway's. */
const readBackends = ({ backends = [] }: ReportedStatus): readonly ReportedBackend[] | undefined =>
  backends.every(isReportedBackend) ? backends : undefined

/**
 * Tells whether every backend that is a local server has been tried since that server came up, with a list of tools or
 * a failure as the result. `servers` holds the start of each (milliseconds since 1970) by the origin of its URL.
 */
function hasTriedAll(backends: readonly ReportedBackend[], servers: ReadonlyMap<string, number>): boolean {
  return backends.every(({ url, latencyMs, lastError }) => {
    const upSince = servers.get(new URL(url).origin)
    return upSince === undefined || latencyMs !== null || (lastError !== null && Date.parse(lastError.at) >= upSince)
  })
}
