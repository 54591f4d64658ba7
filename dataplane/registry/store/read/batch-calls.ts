interface Waiting<Q, A> {
  readonly question: Q
  resolve(answer: A): void
  reject(error: unknown): void
}

/** Questions that can be answered together. */
interface Line<Q, A> {
  waiting: Waiting<Q, A>[]
  running: number
}

interface GatherOptions<Q, A> {
  /** Questions with the same key can be answered together. */
  keyOf(question: Q): string
  /** Most questions that are answered together. */
  readonly most: number
  /** Answers of one key that are worked on at a time; what is asked meanwhile waits and is gathered. */
  readonly atOnce: number
  /** The answers, in the order of the questions. */
  answer(questions: readonly Q[]): Promise<readonly A[]>
}

/** Makes the function that answers questions: together what is asked in one turn of the event loop, or while others run. */
export function gather<Q, A>({ keyOf, most, atOnce, answer }: GatherOptions<Q, A>): (question: Q) => Promise<A> {
  const lines = new Map<string, Line<Q, A>>()

  async function answerGroup(group: readonly Waiting<Q, A>[]): Promise<void> {
    try {
      const answers = await answer(group.map(({ question }) => question))
      for (const [index, { resolve }] of group.entries()) resolve(answers[index] as A)
    } catch (error) {
      for (const { reject } of group) reject(error)
    }
  }

  function advance(key: string, line: Line<Q, A>): void {
    while (line.waiting.length > 0 && line.running < atOnce) {
      const group = line.waiting.splice(0, most)
      line.running++
      const next = () => {
        line.running--
        advance(key, line)
      }
      answerGroup(group).then(next, next)
    }
    if (line.waiting.length === 0 && line.running === 0) lines.delete(key)
  }

  return function ask(question) {
    const key = keyOf(question)
    let line = lines.get(key)
    if (line === undefined) lines.set(key, (line = { waiting: [], running: 0 }))
    const { promise, resolve, reject } = Promise.withResolvers<A>()
    if (line.waiting.push({ question, resolve, reject }) === 1) setImmediate(advance, key, line)
    return promise
  }
}
