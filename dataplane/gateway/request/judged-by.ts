import { decodeJwt } from 'jose'
import { holderOf, type UpstreamTokens } from '../../credentials/index.ts'
import type { Authenticated, Judged } from '../../identity/caller.ts'
import { type Caller, CLIENT_SUBJECT, isEmailVerified, type Verifier } from '../../identity/index.ts'
import { loginOf } from '../../upstream-tokens/index.ts'

/** The longest time until a provider's new ID token is used. Other replicas refresh tokens too. */
const READ_AGAIN_MS = 30_000

interface Known {
  readonly caller: Authenticated
  readonly idToken: string | undefined
  readAt: number
}

/**
 * Returns a verifier whose policies see callers by the ID token of their login at this provider instead of the token
 * that they bring. Their identity stays the same for everything else. Without a provider nothing changes. A caller
 * without such an ID token is denied everything. While the token store is away it throws the PublicError `unavailable`.
 */
export function judgedBy(authenticate: Verifier, tokens: UpstreamTokens, provider: string | undefined): Verifier {
  if (provider === undefined) return authenticate
  // A caller is one object for as long as its token is known, and so is the result made from it.
  const known = new WeakMap<Authenticated, Known>()
  const reading = new WeakMap<Authenticated, Promise<Caller>>()

  function judged(caller: Caller): Caller | Promise<Caller> {
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
    const next = { caller: { ...caller, judged: judgedAs(idToken, provider as string) }, idToken, readAt }
    known.set(caller, next)
    return next.caller
  }

  const soon = (caller: Caller | Promise<Caller>) => (caller instanceof Promise ? caller.then(judged) : judged(caller))
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
function claimsIn(text: string): Readonly<Record<string, unknown>> {
  if (text.startsWith('{')) return JSON.parse(text) as Readonly<Record<string, unknown>>
  const { email, ...others } = decodeJwt<{ email?: unknown }>(text)
  return isEmailVerified(others) && email !== undefined ? { ...others, email } : others
}

/**
 * Reads the claims of an ID token or assertion. The provider's signature was checked on receipt, and the token was in our own store
 * since. An e-mail address that the provider has not verified is left out, as in our own tokens.
 */
function judgedAs(idToken: string | undefined, provider: string): Judged {
  const unknown = `the caller has no ID token of the provider ${JSON.stringify(provider)}`
  if (idToken === undefined) return { unknown }
  try {
    const claims = claimsIn(idToken)
    const { sub } = claims
    if (typeof sub !== 'string' || sub === '') return { unknown }
    // A user whose name at the provider looks like a client of ours gets nothing of that client's (RFC 9700 4.15).
    if (sub.startsWith(CLIENT_SUBJECT)) return { unknown: 'the caller has the subject of a client' }
    return { subject: sub, claims }
  } catch {
    return { unknown }
  }
}
