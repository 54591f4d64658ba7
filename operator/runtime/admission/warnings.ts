import type { KubernetesObject } from '../../model/view.ts'
import {
  conditionProblems,
  type Plan,
  type Problem,
  problemText,
  withoutSecrets,
} from '../../reconcile/outcome/plan.ts'

/** The API server passes on 256 characters of a warning, and 4,096 of all (counted in bytes here). */
const LONGEST = 256
const MOST_BYTES = 4096
const MOST = 12
/** The API server drops a warning with a control character; the others would change a terminal. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu

export interface Explained {
  readonly plan: Plan
  readonly problems: readonly Problem[]
}

function line(text: string): string {
  // The rest is cut off anyway.
  const characters = [
    ...text
      .slice(0, 2 * LONGEST + 2)
      .toWellFormed()
      .replace(UNPRINTABLE, ' '),
  ]
  return characters.length > LONGEST ? `${characters.slice(0, LONGEST - 1).join('')}…` : characters.join('')
}

/** Returns the first warnings that the API server accepts, and the number of those left out. */
function bounded(texts: readonly string[], last: string): readonly string[] {
  const room = MOST_BYTES - 2 * Buffer.byteLength(last)
  const kept: string[] = []
  let bytes = 0
  for (const text of texts.slice(0, MOST).map(line)) {
    bytes += Buffer.byteLength(text)
    if (bytes > room) break
    kept.push(text)
  }
  const left = texts.length - kept.length
  return [...kept, ...(left > 0 ? [`and ${left} more`] : []), last]
}

/** Returns each problem as conditions will report it, with its consequence, or nothing if there is none. */
export function buildWarnings(object: KubernetesObject, { plan, problems }: Explained): readonly string[] {
  const said = conditionProblems(plan)
  if (said.length === 0) return []
  const subject = `${object.kind} ${JSON.stringify(object.metadata.name)}`
  const texts = said.flatMap(({ condition, message }) => {
    const behind = problems.filter((problem) => problem.condition === condition)
    return behind.length > 0 ? behind.map((problem) => problemText(withoutSecrets(problem))) : [message]
  })
  return bounded(
    texts.map((text) => `${subject}: ${text}`),
    line(`${subject} ${wayOut(said)}`),
  )
}

function wayOut(said: ReturnType<typeof conditionProblems>): string {
  const errors = said.filter(({ severity }) => severity === 'error')
  if (errors.length === 0) return 'takes effect except for that'
  return errors.every(({ condition }) => condition === 'ReferencesResolved')
    ? 'takes effect once that is there'
    : 'does not take effect until that is corrected; the previous version keeps running'
}

/** Warns of the objects that still refer to an object under deletion and so keep it. */
export function deletionWarnings(object: KubernetesObject, { plan }: Explained): readonly string[] {
  const blocked = plan.status.conditions.find(({ type }) => type === 'DeletionBlocked')
  if (!blocked) return []
  const subject = `${object.kind} ${JSON.stringify(object.metadata.name)}`
  return bounded([`${subject}: ${blocked.message}`], line(`${subject} is deleted when no object refers to it any more`))
}
