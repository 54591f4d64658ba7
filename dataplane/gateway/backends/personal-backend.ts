import { type CallerCredential, createStrategy, type Strategy, type UpstreamTokens } from '../../credentials/index.ts'
import { Backend, type BackendOptions } from './backend/backend.ts'
import { CallerHeaders, ConfiguredHeaders, OwnHeaders } from './connection/headers.ts'
import { SigningTransport, type Transport } from './connection/transport.ts'
import type { FailurePolicy } from './health/failure-policy.ts'
import { listTools } from './refresh/list-tools.ts'

/** A backend for which each caller has a credential. */
export interface PersonalBackend {
  /** The backend as the gateway itself sees it, without any caller's credential. */
  readonly shared: Backend
  readonly strategy: Strategy
  /** The headers, in lower case, in which callers send the credential; undefined if the strategy obtains it. */
  readonly forwards: readonly string[] | undefined
  /** Returns the tools that the backend lists without a credential; undefined if there are none or they are unknown. */
  readonly openTools: () => Promise<Backend['tools']>
  /** Obtains the credential of the gateway's own probes. */
  readonly authorize: () => Promise<unknown>
  /**
   * Opens the backend for one caller, with its own sessions, streams, lists, era and health, so that callers are fully
   * separated. Over HTTP it shares connections, which carry no identity.
   */
  open(credential: CallerCredential): Backend
}

interface PersonalOptions {
  policy(): FailurePolicy
  readonly upstreamTokens: UpstreamTokens | undefined
}

/** Returns the shared transport. If requests must be signed, it signs with this caller's credential. */
const chooseTransport = ({ dispatcher, url }: Backend, credential: CallerCredential, { signs }: Strategy): Transport =>
  signs === true ? new SigningTransport(dispatcher, url.host, () => credential.current?.sign) : dispatcher

/** Creates the backend; undefined if its configuration uses no credential of callers. */
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
    // Lists that the gateway's own credential gives are not public.
    openTools: strategy.obtainOwn === undefined ? openTools(shared) : async () => undefined,
    open(credential) {
      const caller = new CallerHeaders(config.name, configured, credential)
      // A message stream (HTTP+SSE) is one conversation, so each caller needs one.
      const transport = config.transport === 'sse' ? undefined : chooseTransport(shared, credential, strategy)
      const { definitions } = shared
      const backend = new Backend({ ...options, caller, transport, definitions })
      backend.health.policy = policy()
      return backend
    },
  }
}

/**
 * Returns the function that gives the tools which a backend lists without a credential, for callers who have none yet.
 * It requests them at most once per interval of the policy and shares the result. It gives undefined if the backend
 * lists nothing without a credential.
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
