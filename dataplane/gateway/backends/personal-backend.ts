import { type CallerCredential, createStrategy, type Strategy, type UpstreamTokens } from '../../credentials/index.ts'
import { Backend, type BackendOptions } from './backend/backend.ts'
import { CallerHeaders, ConfiguredHeaders, OwnHeaders } from './connection/headers.ts'
import { SigningTransport, type Transport } from './connection/transport.ts'
import type { FailurePolicy } from './health/failure-policy.ts'
import { listTools } from './refresh/list-tools.ts'

/** A backend for which each caller has a credential of their own. */
export interface PersonalBackend {
  /** The backend as the gateway itself sees it, without anybody's credential. */
  readonly shared: Backend
  readonly strategy: Strategy
  /** Headers, in lower case, in which a request brings the credential itself; undefined where the strategy obtains it. */
  readonly forwards: readonly string[] | undefined
  /** What it shows to whoever asks without a credential; undefined where that is nothing, or not known. */
  readonly openTools: () => Promise<Backend['tools']>
  /** Obtains what the gateway's own probes carry. */
  readonly authorize: () => Promise<unknown>
  /**
   * The backend for one caller: with sessions, streams, lists, era and health of its own, so that nothing of one caller
   * can reach another. It shares connections, which carry no identity, where the transport is HTTP.
   */
  open(credential: CallerCredential): Backend
}

interface PersonalOptions {
  policy(): FailurePolicy
  readonly upstreamTokens: UpstreamTokens | undefined
}

/** The way to the backend that all share; where requests are signed, for this caller. */
const transportOf = ({ dispatcher, url }: Backend, credential: CallerCredential, { signs }: Strategy): Transport =>
  signs === true ? new SigningTransport(dispatcher, url.host, () => credential.current?.sign) : dispatcher

/** Undefined where the configuration names no credential of callers. */
export function personalBackend(
  options: BackendOptions,
  { policy, upstreamTokens }: PersonalOptions,
): PersonalBackend | undefined {
  const { config, directory } = options
  if (config.credential === undefined) return undefined
  const strategy = createStrategy(config.credential, { directory, upstreamTokens })
  const configured = new ConfiguredHeaders(config, directory)
  const own = new OwnHeaders(configured, strategy)
  const forwards = config.credential.forwarded?.headerNames.map((name) => name.toLowerCase())
  const shared = new Backend({ ...options, headers: own, release: () => strategy.close() })
  return {
    shared,
    strategy,
    forwards,
    authorize: () => own.authorize(),
    // What the gateway's own credential shows is not everybody's.
    openTools: strategy.obtainOwn === undefined ? openTools(shared) : async () => undefined,
    open(credential) {
      const caller = new CallerHeaders(config.name, configured, credential)
      // A stream of messages (HTTP+SSE) is one conversation: each caller has one.
      const transport = config.transport === 'sse' ? undefined : transportOf(shared, credential, strategy)
      const backend = new Backend({ ...options, caller, transport })
      backend.health.policy = policy()
      return backend
    },
  }
}

/**
 * Makes the function that gives the tools which a backend shows without a credential, for callers who have none yet. It
 * is asked for them at the interval of its policy at most, once for all who need them meanwhile; undefined where it
 * shows nothing to the gateway itself.
 */
function openTools(backend: Backend): () => Promise<Backend['tools']> {
  let asked: Promise<Backend['tools']> | undefined
  let askAt = 0
  return function knownTools() {
    const now = performance.now()
    if (asked === undefined || now >= askAt) {
      askAt = now + backend.health.policy.intervalMs
      asked = listTools(backend).then(
        ({ tools }) => tools,
        () => undefined,
      )
    }
    return asked
  }
}
