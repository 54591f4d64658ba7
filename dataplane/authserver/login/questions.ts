import type { Sealer } from '../../upstream-tokens/index.ts'
import type { Browser, PendingAuthorization } from './login.ts'

/** An authorization request that is asked about; it is not kept meanwhile. */
export type AskedRequest = Omit<PendingAuthorization, 'uid'>

interface Question {
  readonly authorization: AskedRequest
  /** Milliseconds since 1970. */
  readonly until: number
}

/**
 * What consent pages hold of the requests that they ask about, sealed for the browser that they are shown in. Nothing of
 * them is kept here: whoever begins requests without end costs those nothing who look at such a page.
 */
export interface Questions {
  /** The text that comes back with the answer. */
  seal(authorization: AskedRequest, browser: Browser): string
  /** What was asked; undefined where it was in another browser, or too long ago. */
  open(token: string, browser: Browser): AskedRequest | undefined
}

/** @param lifeS how long a user may take, in seconds */
export function createQuestions(sealer: Sealer, lifeS: number): Questions {
  const nameOf = ({ id }: Browser) => `consent page in ${id}`
  return {
    seal(authorization, browser) {
      const question: Question = { authorization, until: Date.now() + lifeS * 1000 }
      return sealer.seal(JSON.stringify(question), nameOf(browser))
    },
    open(token, browser) {
      const text = sealer.open(token, nameOf(browser))
      const question = text === undefined ? undefined : (JSON.parse(text) as Question)
      return question !== undefined && question.until > Date.now() ? question.authorization : undefined
    },
  }
}
