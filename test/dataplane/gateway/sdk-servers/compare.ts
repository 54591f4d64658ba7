import { scenarios } from './scenarios.ts'
import { type ClientKind, openSdkClient, type Target } from './sdk-client.ts'

/** What came of a scenario: its value, or the error that ended it. */
export type Outcome = { readonly is: unknown } | { readonly code: unknown; readonly message: string }

/** A scenario that takes longer works neither here nor there. In milliseconds. */
const LONGEST_MS = 60_000
/** What of results only some servers say, of themselves. */
const OF_SERVER = /"_meta":\{"io\.modelcontextprotocol\/serverInfo":\{[^{}]*\}\},?/g

/** Whether something came of it that is no error; where an error is what is looked at it counts. */
export const worked = (outcome: Outcome): boolean =>
  'is' in outcome && !/"isError":true,"text":"(?!it failed|thrown)/.test(JSON.stringify(outcome.is))

interface Place {
  readonly kind: ClientKind
  readonly target: Target
  /** What stands before names of tools and prompts there. */
  readonly prefix?: string
  /** How long it may take, in milliseconds. */
  readonly ms?: number
}

/** Runs one scenario with a client of its own. */
export async function run(name: string, { kind, target, prefix = '', ms = LONGEST_MS }: Place): Promise<Outcome> {
  try {
    const opened = await openSdkClient(kind, target)
    try {
      const done = Promise.resolve(scenarios[name]?.({ ...opened, prefix })).then((is) => ({ is: plain(is) }))
      const late = new Promise<Outcome>((resolve) =>
        setTimeout(() => resolve({ code: 'late', message: 'no outcome' }), ms).unref(),
      )
      return await Promise.race([done, late])
    } finally {
      await opened.client.close()
    }
  } catch (error) {
    const { code, message } = error as Error & { code?: unknown }
    return { code, message }
  }
}

const plain = (value: unknown): unknown => JSON.parse((JSON.stringify(value) ?? 'null').replaceAll(OF_SERVER, ''))
