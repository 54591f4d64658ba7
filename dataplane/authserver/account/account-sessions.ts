import { type KeyedHash, randomSecret } from '../keys/keyed-hash.ts'
import type { Browser, LoggedInUser } from '../login/login.ts'
import { firstRecord, type RecordStore } from '../store/record-store.ts'

/** How long somebody stays signed in, in seconds; nothing makes it longer. */
export const SESSION_S = 15 * 60

/** Somebody who looks at what is linked to them. */
export interface AccountSession {
  /** What the browser holds for it, in a cookie. */
  readonly secret: string
  readonly user: LoggedInUser
  /** Trace context of the request that the sign-in began with, where that is traced. */
  readonly trace?: string | undefined
}

/** What is kept of a session, under the digest of its secret. */
interface Kept extends Pick<AccountSession, 'user' | 'trace'> {
  /** Digest of the secret of the browser that signed in. */
  readonly browser: string
}

/** The sign-ins of people who look at what is linked to them. They are good for that, and for no client. */
export interface AccountSessions {
  /** Begins one, with a secret that nobody has had before. */
  begin(user: LoggedInUser, browser: Browser, trace?: string): Promise<AccountSession>
  /** The one with this secret; undefined where it has ended, or is another browser's. */
  find(secret: string, browser: Browser): Promise<AccountSession | undefined>
  end(secret: string): Promise<void>
  /** A text that stands for something on a page of this session: of no use in another one, and after its end. */
  proofOf(session: AccountSession, ...what: readonly string[]): string
  isProof(given: string, session: AccountSession, ...what: readonly string[]): boolean
}

const SECRET = /^[\w-]{43}$/
const PROOF = 'account-proof'

export function createAccountSessions(store: RecordStore, keyed: () => KeyedHash): AccountSessions {
  const textOf = ({ secret }: AccountSession, what: readonly string[]) => JSON.stringify([secret, ...what])
  return {
    async begin(user, { id }, trace) {
      const secret = randomSecret()
      const kept: Kept = { user, browser: keyed().of('browser', id), trace }
      await store.set('account', keyed().of('account', secret), JSON.stringify(kept), {
        ttlS: SESSION_S,
        by: [user.subject],
      })
      return { secret, user, trace }
    },
    async find(secret, { id }) {
      if (!SECRET.test(secret)) return undefined
      const kept = await firstRecord<Kept>(keyed().all('account', secret), (name) => store.get('account', name))
      return kept !== undefined && keyed().matches('browser', id, kept.browser)
        ? { secret, user: kept.user, trace: kept.trace }
        : undefined
    },
    async end(secret) {
      await Promise.all(
        keyed()
          .all('account', secret)
          .map((name) => store.delete('account', name)),
      )
    },
    proofOf: (session, ...what) => keyed().of(PROOF, textOf(session, what)),
    isProof: (given, session, ...what) => keyed().matches(PROOF, textOf(session, what), given),
  }
}
