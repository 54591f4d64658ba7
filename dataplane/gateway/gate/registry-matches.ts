import { setImmediate } from 'node:timers/promises'
import { type Steps, turnOf } from '../limits/turns.ts'
import type { Matched, Snapshot } from './decision.ts'
import { type GateMember, type Match, type MatchBy, matching } from './match.ts'

/** A catalog, and the members to search. */
interface Question {
  readonly snapshot: Snapshot
  readonly members: readonly GateMember[]
  readonly by: MatchBy
}

/** An answered question: the matches by the JSON text of their members. */
interface Answered extends Question {
  readonly matches: ReadonlyMap<string, Match>
}

/**
 * Searches the members in the catalog of one registry. A large catalog is searched in steps; until the end, unchanged
 * members keep their earlier matches.
 */
export class RegistryMatches {
  readonly #onAnswer: () => void
  #asked: Question | undefined
  #answered: Answered | undefined
  /** Resolves when the search has ended. */
  pending: Promise<void> | undefined

  /** @param onAnswer called when the search of a large catalog has ended */
  constructor(onAnswer: () => void) {
    this.#onAnswer = onAnswer
  }

  /** Returns the matches that are known so far. */
  of(snapshot: Snapshot, members: readonly GateMember[], by: MatchBy): Matched | undefined {
    const asked = this.#asked
    if (asked?.snapshot !== snapshot || asked.members !== members || asked.by !== by)
      this.#ask({ snapshot, members, by })
    const known = this.#answered
    if (known?.by !== by) return undefined
    return { rules: known.snapshot, matches: members.map((member) => known.matches.get(keyOf(member))) }
  }

  #ask(question: Question): void {
    this.#asked = question
    this.pending = undefined
    const work = matching(question.members, question.snapshot.rows, question.by)
    const turn = turnOf(work)
    if (turn.done === true) this.#answer(question, turn.value)
    else this.pending = this.#goOn(question, work)
  }

  async #goOn(question: Question, work: Steps<readonly Match[]>): Promise<void> {
    for (;;) {
      await setImmediate()
      if (this.#asked !== question) return
      const turn = turnOf(work)
      if (turn.done !== true) continue
      this.pending = undefined
      this.#answer(question, turn.value)
      this.#onAnswer()
      return
    }
  }

  #answer(question: Question, matches: readonly Match[]): void {
    const found = question.members.map((member, index) => [keyOf(member), matches[index] as Match] as const)
    this.#answered = { ...question, matches: new Map(found) }
  }

  stop(): void {
    this.#asked = undefined
    this.pending = undefined
  }
}

const keyOf = (member: GateMember): string => JSON.stringify(member)
