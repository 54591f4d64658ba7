import type { MCPRegistry } from '../../../crds/index.ts'
import type { SourceObservation } from '../../model/view.ts'
import type { Conditions } from '../outcome/plan.ts'

type SourceStates = NonNullable<NonNullable<MCPRegistry['status']>['sources']>

/** Builds `status.sources`: the observation of each source, and since when it has been so. */
export function sourceStates(
  { status }: Pick<MCPRegistry, 'status'>,
  observed: readonly SourceObservation[],
  now: string,
): SourceStates {
  const before = new Map((status?.sources ?? []).map((source) => [source.name, source]))
  return observed.map((source) => {
    const previous = before.get(source.name)
    const lastTransitionTime = previous?.state === source.state ? previous.lastTransitionTime : now
    return { ...source, lastTransitionTime }
  })
}

/** Sets the condition `SourcesSynced`. A failing source degrades only itself: the registry stays ready. */
export function setSourcesSynced(observed: readonly SourceObservation[], conditions: Conditions): void {
  const failed = observed.filter(({ state }) => state === 'Failed')
  const waiting = observed.filter(({ state }) => state === 'Waiting')
  if (failed.length > 0)
    conditions.set(
      'SourcesSynced',
      'False',
      'SourcesFailed',
      failed.map(({ name, error }) => `${name}: ${error?.message} (${error?.code})`).join('; '),
    )
  else if (waiting.length > 0)
    conditions.set(
      'SourcesSynced',
      'Unknown',
      'SourcesWaiting',
      `waiting for the first sync of ${waiting.map(({ name }) => name).join(', ')}`,
    )
  else conditions.set('SourcesSynced', 'True', 'AllSynced', '')
}
