import { scenarios } from './scenarios.ts'
import { type ClientKind, openSdkClient, type Target } from './sdk-client.ts'

/** The outcome of a scenario: its value, or the error that ended it. */
export type Outcome = { readonly is: unknown } | { readonly code: unknown; readonly message: string }

/** The timeout of a scenario in milliseconds. */
const LONGEST_MS = 60_000
/** A member that only some servers add to results. */
const OF_SERVER = /"_meta":\{"io\.modelcontextprotocol\/serverInfo":\{[^{}]*\}\},?/g

/** Returns whether the outcome is not an error, except where the scenario expects one. */
export const hasWorked = (outcome: Outcome): boolean =>
  'is' in outcome && !/"isError":true,"text":"(?!it failed|thrown)/.test(JSON.stringify(outcome.is))

interface Place {
  readonly kind: ClientKind
  readonly target: Target
  /** The prefix of names of tools and prompts. */
  readonly prefix?: string
  /** The timeout in milliseconds. */
  readonly ms?: number
}

/** Runs one scenario with a new client. */
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
