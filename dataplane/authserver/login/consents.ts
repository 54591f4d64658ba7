import { randomBytes } from 'node:crypto'
import type { KeyedHash } from '../keys/keyed-hash.ts'
import { firstRecord, type RecordStore } from '../store/record-store.ts'
import type { Browser } from './login.ts'

/** What a client asks a user for. */
export interface Asked {
  readonly clientId: string
  /** Where the client is answered. */
  readonly redirectUri: string
  /** What its tokens would be for. */
  readonly resource: string
  readonly scopes: readonly string[]
}

/** What was allowed in a browser, and by whom. */
interface Consent {
  readonly subject: string
  readonly scopes: readonly string[]
  /** The user's marks when it was kept: it counts as long as both are there. */
  readonly marks: readonly string[]
}

/** A consent that is not used for so long is asked for again. */
export const CONSENT_S = 30 * 24 * 60 * 60

/** What users have allowed clients, by the browser they did it in: who the user is is not known when it is asked for. */
interface Consents {
  /** Who has allowed all of this in this browser; undefined where nobody has. */
  find(browser: Browser, asked: Asked): Promise<string | undefined>
  /** Keeps it, together with what the same user has allowed the same client before. */
  keep(browser: Browser, asked: Asked, subject: string): Promise<void>
  /** Forgets what this browser remembers, whoever has allowed it. */
  forget(browser: Browser, asked: Asked): Promise<void>
  /** Forgets what a user has allowed a client, in whatever browser; without a client, what they have allowed any. */
  forgetOf(subject: string, clientId?: string): Promise<void>
}

/**
 * Each consent holds two marks of its user: one for all clients, one for its client. To forget what a user has allowed is
 * to delete a mark. Nothing is asked of the client for that, and a mark that is lost means that the user is asked again.
 */
export function createConsents(store: RecordStore, keyed: () => KeyedHash): Consents {
  const nameOf = ({ id }: Browser, { clientId, redirectUri, resource }: Asked) =>
    JSON.stringify([id, clientId, redirectUri, resource])

  const read = <T>(purpose: string, name: string): Promise<T | undefined> =>
    firstRecord<T>(keyed().all(purpose, name), (digest) => store.get('consent', digest))

  async function remove(purpose: string, name: string): Promise<void> {
    await Promise.all(
      keyed()
        .all(purpose, name)
        .map((digest) => store.delete('consent', digest)),
    )
  }

  /** The marks that count now; undefined for one that is not there. */
  const marksOf = (subject: string, clientId: string): Promise<readonly (string | undefined)[]> =>
    Promise.all(markNames(subject, clientId).map((name) => read<string>(MARK, name)))

  /** A mark that is there, kept for another time, or a new one. One that is removed meanwhile stays removed. */
  async function marked(name: string, subject: string): Promise<string> {
    const digest = keyed().of(MARK, name)
    const before = await store.get('consent', digest)
    if (before !== undefined) {
      await store.extend('consent', digest, CONSENT_S)
      return JSON.parse(before)
    }
    // By an earlier secret it may be there still.
    const mark = (await read<string>(MARK, name)) ?? randomBytes(16).toString('base64url')
    await store.add('consent', digest, JSON.stringify(mark), { ttlS: CONSENT_S, by: [subject] })
    return mark
  }

  async function find(browser: Browser, asked: Asked): Promise<Consent | undefined> {
    const consent = await read<Consent>(CONSENT, nameOf(browser, asked))
    if (consent === undefined) return undefined
    const marks = await marksOf(consent.subject, asked.clientId)
    return marks.every((mark, index) => mark !== undefined && mark === consent.marks[index]) ? consent : undefined
  }

  return {
    async find(browser, asked) {
      const consent = await find(browser, asked)
      return consent && asked.scopes.every((scope) => consent.scopes.includes(scope)) ? consent.subject : undefined
    },
    async keep(browser, asked, subject) {
      const before = await find(browser, asked)
      const scopes = new Set([...(before?.subject === subject ? before.scopes : []), ...asked.scopes])
      const names = markNames(subject, asked.clientId)
      const marks = await Promise.all(names.map((name) => marked(name, subject)))
      const consent: Consent = { subject, scopes: [...scopes], marks }
      const digest = keyed().of(CONSENT, nameOf(browser, asked))
      await store.set('consent', digest, JSON.stringify(consent), { ttlS: CONSENT_S, by: [subject] })
    },
    forget: (browser, asked) => remove(CONSENT, nameOf(browser, asked)),
    async forgetOf(subject, clientId) {
      const [all, one] = markNames(subject, clientId ?? '')
      await remove(MARK, clientId === undefined ? all : one)
    },
  }
}

const [CONSENT, MARK] = ['consent', 'consents of user']

/** Of all that a user has allowed, and of what they have allowed one client. */
const markNames = (subject: string, clientId: string): readonly [string, string] => [
  JSON.stringify([subject]),
  JSON.stringify([subject, clientId]),
]
