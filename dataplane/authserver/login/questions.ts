import type { Sealer } from '../../upstream-tokens/index.ts'
import type { Browser } from './login.ts'

interface Question<Subject> {
  readonly subject: Subject
  /** Milliseconds since 1970. */
  readonly until: number
}

interface QuestionsOptions {
  /** The name of the page. A token of one page is not accepted from another. */
  readonly page: string
  /** The time that a user may take, in seconds. */
  readonly lifeS: number
}

/**
 * Seals the data of a page for the browser that shows it. Nothing is stored here, so an attacker's endless requests do
 * not affect users who look at such a page.
 */
export function createQuestions<Subject>(sealer: Sealer, { page, lifeS }: QuestionsOptions) {
  const bindName = ({ id }: Browser) => `${page} in ${id}`
  return {
    /** Returns the token that the page sends back with the answer. */
    seal(subject: Subject, browser: Browser): string {
      const question: Question<Subject> = { subject, until: Date.now() + lifeS * 1000 }
      return sealer.seal(JSON.stringify(question), bindName(browser))
    },
    /** Returns the sealed data; undefined for a different browser or an expired token. */
    open(token: string, browser: Browser): Subject | undefined {
      const text = sealer.open(token, bindName(browser))
      const question = text === undefined ? undefined : (JSON.parse(text) as Question<Subject>)
      return question !== undefined && question.until > Date.now() ? question.subject : undefined
    },
  }
}
