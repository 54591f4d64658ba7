import { decodeJwt } from 'jose'
import { holderOf, type UpstreamTokens } from '../../credentials/index.ts'
import type { Authenticated, PolicyIdentity } from '../../identity/caller.ts'
import { type Caller, CLIENT_SUBJECT, isEmailVerified, type Verifier } from '../../identity/index.ts'
import { loginOf } from '../../upstream-tokens/index.ts'

/** The longest time until a new ID token is used. Other replicas refresh tokens, too. */
const READ_AGAIN_MS = 30_000

interface Known {
  readonly caller: Authenticated
  readonly idToken: string | undefined
  readAt: number
}

/**
 * Returns a verifier that gives callers the claims of their login at this provider, for policies. Everything else uses
 * the claims of the caller's own token. Without a provider nothing changes. A caller without an ID token of the provider
 * is denied everything. If the token store is unavailable, the verifier throws `unavailable`.
 */
export function withPolicyIdentity(
  authenticate: Verifier,
  tokens: UpstreamTokens,
  provider: string | undefined,
): Verifier {
  if (provider === undefined) return authenticate
  // A caller stays one object while its token is known.
  const known = new WeakMap<Authenticated, Known>()
  const reading = new WeakMap<Authenticated, Promise<Caller>>()

  function identify(caller: Caller): Caller | Promise<Caller> {
    if (caller.kind === 'anonymous') return caller
    const found = known.get(caller)
    if (found !== undefined && performance.now() - found.readAt < READ_AGAIN_MS) return found.caller
    const pending = reading.get(caller)
    if (pending !== undefined) return pending
    const started = read(caller, found).finally(() => reading.delete(caller))
    reading.set(caller, started)
    return started
  }

  async function read(caller: Authenticated, before: Known | undefined): Promise<Caller> {
    const holder = holderOf({ ...caller, login: loginOf(caller.claims) })
    const idToken = await tokens.identity(holder, provider as string)
    const readAt = performance.now()
    if (before !== undefined && before.idToken === idToken) {
      before.readAt = readAt
      return before.caller
    }
    const next = { caller: { ...caller, policyIdentity: readIdentity(idToken, provider as string) }, idToken, readAt }
    known.set(caller, next)
    return next.caller
  }

  const soon = (caller: Caller | Promise<Caller>) =>
    caller instanceof Promise ? caller.then(identify) : identify(caller)
  return Object.assign(
    (...[authorization, request]: Parameters<Verifier>) => soon(authenticate(authorization, request)),
    {
      recheck: (authorization: string | undefined) => soon(authenticate.recheck(authorization)),
      issuers: () => authenticate.issuers(),
      stepUp: authenticate.stepUp,
      close: () => authenticate.close(),
    },
  )
}

/** Returns the claims of an ID token, or those that were kept of an assertion. Throws if it is neither. */
function readClaims(text: string): Readonly<Record<string, unknown>> {
  if (text.startsWith('{')) return JSON.parse(text) as Readonly<Record<string, unknown>>
  const { email, ...others } = decodeJwt<{ email?: unknown }>(text)
  return isEmailVerified(others) && email !== undefined ? { ...others, email } : others
}

/**
 * Reads the identity in an ID token or assertion. Its signature was checked on receipt, and it was stored here since. An
 * e-mail address that the provider has not verified is left out, as in the gateway's own tokens.
 */
function readIdentity(idToken: string | undefined, provider: string): PolicyIdentity {
  const unknown = `the caller has no ID token of the provider ${JSON.stringify(provider)}`
  if (idToken === undefined) return { unknown }
  try {
    const claims = readClaims(idToken)
    const { sub } = claims
    if (typeof sub !== 'string' || sub === '') return { unknown }
    // A user whose name at the provider looks like a client of ours gets nothing of that client's (RFC 9700 4.15).
    if (sub.startsWith(CLIENT_SUBJECT)) return { unknown: 'the caller has the subject of a client' }
    return { subject: sub, claims }
  } catch {
    return { unknown }
  }
}
