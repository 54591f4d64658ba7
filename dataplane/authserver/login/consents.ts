import { randomBytes } from 'node:crypto'
import type { KeyedHash } from '../keys/keyed-hash.ts'
import { firstRecord, type RecordStore } from '../store/record-store.ts'
import type { Browser } from './login.ts'

/** The consent that a client asks for. */
export interface Asked {
  readonly clientId: string
  readonly redirectUri: string
  /** The server that its tokens are for. */
  readonly resource: string
  readonly scopes: readonly string[]
}

/** A consent in a browser, and the user who gave it. */
interface Consent {
  readonly subject: string
  readonly scopes: readonly string[]
  /** The user's marks at the time of the consent, which is valid while both exist. */
  readonly marks: readonly string[]
}

/** A consent that is unused for this time is asked for again, in seconds. */
export const CONSENT_S = 30 * 24 * 60 * 60

/**
 * The consents of users, by browser, because the user is not known yet when the client asks. Each consent holds two
 * marks of its user: one for all clients and one for its client. Deleting a mark revokes the consents that hold it, even
 * if the client is no longer known. If a mark is lost, the user is asked again.
 */
export function createConsents(store: RecordStore, keyed: () => KeyedHash) {
  const formatName = ({ id }: Browser, { clientId, redirectUri, resource }: Asked) =>
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

  const readMarks = (subject: string, clientId: string): Promise<readonly (string | undefined)[]> =>
    Promise.all(markNames(subject, clientId).map((name) => read<string>(MARK, name)))

  /**
   * Returns an existing mark and extends its lifetime, or makes a new one. A mark that is deleted at the same time
   * stays deleted.
   */
  async function marked(name: string, subject: string): Promise<string> {
    const digest = keyed().of(MARK, name)
    const before = await store.get('consent', digest)
    if (before !== undefined) {
      await store.extend('consent', digest, { ttlS: CONSENT_S, by: [subject] })
      return JSON.parse(before)
    }
    // The mark may still exist under an earlier secret.
    const mark = (await read<string>(MARK, name)) ?? randomBytes(16).toString('base64url')
    await store.add('consent', digest, JSON.stringify(mark), { ttlS: CONSENT_S, by: [subject] })
    return mark
  }

  async function find(browser: Browser, asked: Asked): Promise<Consent | undefined> {
    const consent = await read<Consent>(CONSENT, formatName(browser, asked))
    if (consent === undefined) return undefined
    const marks = await readMarks(consent.subject, asked.clientId)
    return marks.every((mark, index) => mark !== undefined && mark === consent.marks[index]) ? consent : undefined
  }

  return {
    /** Returns the user who has consented to all of this in this browser, or undefined. */
    async find(browser: Browser, asked: Asked): Promise<string | undefined> {
      const consent = await find(browser, asked)
      return consent && asked.scopes.every((scope) => consent.scopes.includes(scope)) ? consent.subject : undefined
    },
    /** Keeps a consent, together with what the same user has allowed the same client before. */
    async keep(browser: Browser, asked: Asked, subject: string): Promise<void> {
      const before = await find(browser, asked)
      const scopes = new Set([...(before?.subject === subject ? before.scopes : []), ...asked.scopes])
      const names = markNames(subject, asked.clientId)
      const marks = await Promise.all(names.map((name) => marked(name, subject)))
      const consent: Consent = { subject, scopes: [...scopes], marks }
      const digest = keyed().of(CONSENT, formatName(browser, asked))
      await store.set('consent', digest, JSON.stringify(consent), { ttlS: CONSENT_S, by: [subject] })
    },
    /** Removes the consent in this browser, whoever gave it. */
    forget: (browser: Browser, asked: Asked) => remove(CONSENT, formatName(browser, asked)),
    /** Revokes a user's consents in all browsers, for one client or, without `clientId`, for all. */
    async forgetUser(subject: string, clientId?: string): Promise<void> {
      const [all, one] = markNames(subject, clientId ?? '')
      await remove(MARK, clientId === undefined ? all : one)
    },
  }
}

const [CONSENT, MARK] = ['consent', 'consents of user']

/** Returns the names of a user's marks: for all clients, and for one client. */
const markNames = (subject: string, clientId: string): readonly [string, string] => [
  JSON.stringify([subject]),
  JSON.stringify([subject, clientId]),
]
