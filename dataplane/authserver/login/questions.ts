import type { Sealer } from '../../upstream-tokens/index.ts'
import type { Browser } from './login.ts'

interface Question<Subject> {
  readonly subject: Subject
  /** Milliseconds since 1970. */
  readonly until: number
}

/**
 * Seals the subjects of pages for the browser that shows them. Nothing is stored here, so endless requests of an
 * attacker do not affect users who look at such a page.
 */
interface Questions<Subject> {
  /** Returns the text that comes back with the answer. */
  seal(subject: Subject, browser: Browser): string
  /** Returns what was sealed, or undefined for a different browser or after too long a time. */
  open(token: string, browser: Browser): Subject | undefined
}

interface QuestionsOptions {
  /** The name of the page: the token of one is no token of another. */
  readonly page: string
  /** The time that a user may take, in seconds. */
  readonly lifeS: number
}

export function createQuestions<Subject>(sealer: Sealer, { page, lifeS }: QuestionsOptions): Questions<Subject> {
  const nameOf = ({ id }: Browser) => `${page} in ${id}`
  return {
    seal(subject, browser) {
      const question: Question<Subject> = { subject, until: Date.now() + lifeS * 1000 }
      return sealer.seal(JSON.stringify(question), nameOf(browser))
    },
    open(token, browser) {
      const text = sealer.open(token, nameOf(browser))
      const question = text === undefined ? undefined : (JSON.parse(text) as Question<Subject>)
      return question !== undefined && question.until > Date.now() ? question.subject : undefined
    },
  }
}
