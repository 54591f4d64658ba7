import type { KeyedHash } from '../keys/keyed-hash.ts'
import { firstRecord } from '../store/first-record.ts'
import type { RecordStore } from '../store/record-store.ts'
import type { Browser } from './login.ts'

/** What a client asks a user for. */
export interface Asked {
  readonly clientId: string
  /** Where the client is answered; on loopback without its port, which changes at each start of a program. */
  readonly destination: string
  readonly scopes: readonly string[]
}

/** What was allowed in a browser, and by whom. */
interface Consent {
  readonly subject: string
  readonly scopes: readonly string[]
}

/** A consent that is not used for so long is asked for again. */
export const CONSENT_S = 30 * 24 * 60 * 60

/** What users have allowed clients, by the browser they did it in: who the user is is not known when it is asked for. */
export interface Consents {
  /** Who has allowed all of this in this browser; undefined where nobody has. */
  find(browser: Browser, asked: Asked): Promise<string | undefined>
  /** Keeps it, together with what the same user has allowed the same client before. */
  keep(browser: Browser, asked: Asked, subject: string): Promise<void>
  forget(browser: Browser, asked: Omit<Asked, 'scopes'>): Promise<void>
}

export function createConsents(store: RecordStore, keyed: () => KeyedHash): Consents {
  const nameOf = ({ id }: Browser, { clientId, destination }: Omit<Asked, 'scopes'>) =>
    JSON.stringify([id, clientId, destination])

  const read = (browser: Browser, asked: Asked): Promise<Consent | undefined> =>
    firstRecord<Consent>(keyed().all('consent', nameOf(browser, asked)), (name) => store.get('consent', name))

  return {
    async find(browser, asked) {
      const consent = await read(browser, asked)
      return consent && asked.scopes.every((scope) => consent.scopes.includes(scope)) ? consent.subject : undefined
    },
    async keep(browser, asked, subject) {
      const before = await read(browser, asked)
      const scopes = new Set([...(before?.subject === subject ? before.scopes : []), ...asked.scopes])
      const consent: Consent = { subject, scopes: [...scopes] }
      await store.set('consent', keyed().of('consent', nameOf(browser, asked)), JSON.stringify(consent), CONSENT_S)
    },
    async forget(browser, asked) {
      const digests = keyed().all('consent', nameOf(browser, asked))
      await Promise.all(digests.map((digest) => store.delete('consent', digest)))
    },
  }
}
