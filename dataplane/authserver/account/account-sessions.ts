import { type KeyedHash, randomSecret } from '../keys/keyed-hash.ts'
import type { Browser, LoggedInUser } from '../login/login.ts'
import { firstRecord, type RecordStore } from '../store/record-store.ts'

/** The lifetime of a session in seconds. Nothing extends it. */
export const SESSION_S = 15 * 60

/** The session of a user who looks at their links. */
export interface AccountSession {
  /** The secret in the browser's cookie. */
  readonly secret: string
  readonly user: LoggedInUser
  /** Trace context of the request that began the sign-in, if it is traced. */
  readonly trace?: string | undefined
}

/** The sign-in that begins a session. */
export interface SignIn extends Pick<AccountSession, 'user' | 'trace'> {
  /** Name of the provider that has identified the user. */
  readonly by: string
}

/** The stored part of a session, under the digest of its secret. */
interface Kept extends SignIn {
  /** The mark of that provider at the sign-in. */
  readonly mark?: string | undefined
  /** Digest of the secret of the browser that signed in. */
  readonly browser: string
}

/** The sessions of users who look at their links. They give no access to anything else. */
export type AccountSessions = ReturnType<typeof createAccountSessions>

const SECRET = /^[\w-]{43}$/
const PROOF = 'account-proof'

export function createAccountSessions(
  store: RecordStore,
  keyed: () => KeyedHash,
  /** Returns the mark of a provider that identifies users. */
  markOf: (provider: string) => string | undefined,
) {
  const joinText = ({ secret }: AccountSession, what: readonly string[]) => JSON.stringify([secret, ...what])
  return {
    async begin({ user, by, trace }: SignIn, { id }: Browser): Promise<AccountSession> {
      const secret = randomSecret()
      const kept: Kept = { user, by, mark: markOf(by), browser: keyed().of('browser', id), trace }
      await store.set('account', keyed().of('account', secret), JSON.stringify(kept), {
        ttlS: SESSION_S,
        by: [user.subject],
      })
      return { secret, user, trace }
    },
    /**
     * Returns the session with this secret, or undefined if it has ended, belongs to a different browser, or the
     * provider that has identified its user is there no longer.
     */
    async find(secret: string, { id }: Browser): Promise<AccountSession | undefined> {
      if (!SECRET.test(secret)) return undefined
      const kept = await firstRecord<Kept>(keyed().all('account', secret), (name) => store.get('account', name))
      return kept !== undefined && keyed().matches('browser', id, kept.browser) && markOf(kept.by) === kept.mark
        ? { secret, user: kept.user, trace: kept.trace }
        : undefined
    },
    async end(secret: string): Promise<void> {
      await Promise.all(
        keyed()
          .all('account', secret)
          .map((name) => store.delete('account', name)),
      )
    },
    /** Returns a proof for a page of this session. No other session accepts it, nor does this one after its end. */
    makeProof: (session: AccountSession, ...what: readonly string[]) => keyed().of(PROOF, joinText(session, what)),
    isProof: (given: string, session: AccountSession, ...what: readonly string[]) =>
      keyed().matches(PROOF, joinText(session, what), given),
  }
}
