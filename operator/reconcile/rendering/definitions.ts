import type { PinningMode } from '../../../crds/settings/gateway/pinning.ts'
import type { DefinitionsObservation } from '../../model/view.ts'
import { type Conditions, type PlannedEvent, type Problems, readConditions } from '../outcome/plan.ts'

const TYPE = 'DefinitionsApproved'

/** Reasons that pods have told: they hold until pods tell again. */
const OF_PODS: ReadonlySet<string> = new Set(['Withheld', 'AllApproved', 'Reported'])

const NAMED = 10

/** The definitions of one server: how strictly they are held, and what pods report of them. */
export interface HeldDefinitions {
  readonly name: string
  readonly mode: PinningMode
  /** True if some MCPPin names the server, as far as the gateway or proxy uses it. */
  readonly isPinned: boolean
  readonly seen: DefinitionsObservation | undefined
}

const sum = (all: readonly HeldDefinitions[], field: 'approved' | 'withheld' | 'reported' | 'missing') =>
  all.reduce((total, { seen }) => total + (seen?.[field] ?? 0), 0)

/** Returns the counts and the first names, without digests: a text that flaps must not write a status each time. */
function formatMessage(all: readonly HeldDefinitions[], isOfGateway: boolean): string {
  const names = all.flatMap(({ name, seen }) =>
    (seen?.names ?? []).map((found) => (isOfGateway ? `${name}: ${found}` : found)),
  )
  const shown = [...new Set(names)].sort().slice(0, NAMED)
  const counts = (['approved', 'withheld', 'reported', 'missing'] as const).map(
    (field) => `${sum(all, field)} ${field}`,
  )
  return `${counts.join(', ')}${shown.length === 0 ? '' : `: ${shown.join(', ')}`}`
}

/** Sets the condition of servers whose definitions are held to pins. Returns its reason if something is withheld. */
function setCondition(
  held: readonly HeldDefinitions[],
  { isOfGateway, problems }: { readonly isOfGateway: boolean; readonly problems: Problems },
  conditions: Conditions,
): void {
  const invalid = problems.all().filter(({ reason }) => reason === 'PinsInvalid')
  if (invalid.length > 0) {
    conditions.set(TYPE, 'False', 'PinsInvalid', invalid.map(({ message }) => message).join('; '))
    return
  }
  const unpinned = held.filter(({ mode, isPinned }) => mode === 'enforce' && !isPinned)
  const others = held.filter(({ mode, isPinned }) => mode === 'enforce' && isPinned)
  const message = formatMessage(held, isOfGateway)
  if (sum(others, 'withheld') > 0) {
    conditions.set(TYPE, 'False', 'Withheld', message)
    return
  }
  if (unpinned.length > 0) {
    const names = unpinned.slice(0, NAMED).map(({ name }) => JSON.stringify(name))
    const rest = unpinned.length > NAMED ? ` and ${unpinned.length - NAMED} more` : ''
    const whose = isOfGateway ? ` of ${names.join(', ')}${rest}` : ''
    conditions.set(TYPE, 'False', 'Unpinned', `no definition${whose} is approved, so nothing is listed`)
    return
  }
  if (held.some(({ seen }) => seen === undefined)) {
    conditions.keep(TYPE)
    if (!OF_PODS.has(conditions.get(TYPE)?.reason ?? ''))
      conditions.set(TYPE, 'Unknown', 'NotObserved', 'no pod has reported on the definitions yet')
    return
  }
  conditions.set(TYPE, 'True', others.length === 0 ? 'Reported' : 'AllApproved', message)
}

/** Sets `DefinitionsApproved`, if anything is held to pins. `isOfGateway`: messages name the servers. */
export function reportDefinitions(
  held: readonly HeldDefinitions[],
  place: { readonly isOfGateway: boolean; readonly problems: Problems },
  conditions: Conditions,
): void {
  const active = held.filter(({ mode }) => mode !== 'disabled')
  if (active.length > 0) setCondition(active, place, conditions)
}

interface Conditioned {
  readonly metadata: object
  readonly status?: unknown
}

/** Returns the event of a transition: something new is withheld, or everything is approved again. */
export function definitionEvents(object: Conditioned, conditions: Conditions): readonly PlannedEvent[] {
  const before = readConditions(object).find(({ type }) => type === TYPE)
  const now = conditions.get(TYPE)
  const wasWithheld = before?.status === 'False'
  if (now?.status === 'False' && now.reason !== 'PinsInvalid') {
    if (wasWithheld && before.reason === now.reason && before.message === now.message) return []
    return [{ type: 'Warning', reason: 'DefinitionWithheld', message: now.message, condition: TYPE }]
  }
  if (now?.status === 'True' && wasWithheld)
    return [{ type: 'Normal', reason: 'DefinitionApproved', message: now.message, condition: TYPE }]
  return []
}
