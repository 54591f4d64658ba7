import { findKind } from '../../../crds/index.ts'
import { byText, createView, type NamedObservation, type NamedSources } from '../../model/index.ts'
import type { ClusterView, KubernetesObject, ObjectName } from '../../model/view.ts'
import { explainedPlan } from '../../reconcile/index.ts'
import {
  type ConditionProblem,
  conditionProblems,
  formatProblem,
  type Plan,
  type Problem,
  type ReconcileContext,
  withoutSecrets,
} from '../../reconcile/outcome/plan.ts'
import type { CoreObject } from './core.ts'
import { formatObjectKey, type ManifestFinding, type ObjectId } from './finding.ts'
import { buildFinding, type Manifest } from './read.ts'

export interface Planned {
  readonly manifest: Manifest
  readonly plan: Plan
  readonly problems: readonly Problem[]
}

interface PlanInput {
  readonly manifests: readonly Manifest[]
  readonly secrets: readonly CoreObject[]
  readonly configMaps: readonly CoreObject[]
  /**
   * Returns a text that changes with a Secret's value. Absent: no text depends on it, so that a plan reveals no value.
   */
  readonly computeRevision?: (place: string, value: Buffer) => string
  readonly observations?: readonly NamedObservation[]
  readonly sources?: readonly NamedSources[]
  /** Returns the status that was planned for an object before. */
  readonly findStatus?: (id: ObjectId) => object | undefined
  /** Objects of the files that are left out because they are invalid. */
  readonly wrong?: readonly ObjectId[]
  /** Changes the view in which an object is planned. */
  readonly adaptView?: (view: ClusterView, manifest: Manifest) => ClusterView
}

interface PlacedProblem {
  readonly message: string
  /** A JSON pointer (RFC 6901) into the object: to the wrong value, or to the name of the referenced object. */
  readonly pointer?: string
}

const inOrder = (left: Manifest, right: Manifest) =>
  byText(left.id.kind, right.id.kind) ||
  byText(left.id.namespace, right.id.namespace) ||
  byText(left.id.name, right.id.name)

const decodeTexts = (values: ReadonlyMap<string, Buffer>) =>
  Object.fromEntries([...values].map(([key, value]) => [key, value.toString()]))

/** Plans every object of a set of checked manifests, in the order of kind, namespace and name. */
export function planManifests(input: PlanInput, context: ReconcileContext): readonly Planned[] {
  const manifests = [...input.manifests].sort(inOrder)
  const withStatus = ({ object, id }: Manifest): KubernetesObject => {
    const status = input.findStatus?.(id)
    return status ? { ...object, status } : object
  }
  const objects = manifests.map(withStatus)
  const wrong = new Set(input.wrong?.map(formatObjectKey))
  const isWrong = (kind: string, namespace: string, name: string) =>
    wrong.has(formatObjectKey({ kind, namespace, name }))
  const valid = createView({
    objects,
    secrets: input.secrets.map(({ namespace, name, values }) => ({
      namespace,
      name,
      keys: [...values].map(([key, value]): [string, string] => [
        key,
        input.computeRevision?.(`${namespace}/${name}/${key}`, value) ?? '',
      ]),
    })),
    configMaps: input.configMaps.map(({ namespace, name, values }) => ({ namespace, name, data: decodeTexts(values) })),
    observations: input.observations ?? [],
    sources: input.sources ?? [],
  })
  const view: ClusterView = wrong.size === 0 ? valid : { ...valid, isWrong }
  return manifests.map((manifest, index) => ({
    manifest,
    ...explainedPlan(objects[index] as KubernetesObject, input.adaptView?.(view, manifest) ?? view, context),
  }))
}

/** Returns one finding for each problem, at its position or else at the object's name. */
export const planFindings = (planned: readonly Planned[]): readonly ManifestFinding[] =>
  planned.flatMap(({ manifest, plan, problems }) =>
    conditionProblems(plan).flatMap((said) =>
      splitProblem(manifest, said, problems).map(({ message, pointer }) =>
        buildFinding(manifest, said.severity, said.reason, {
          message: `${manifest.id.kind} ${manifest.id.namespace}/${manifest.id.name}: ${message}`,
          pointer,
        }),
      ),
    ),
  )

/** Returns the problems behind a condition, or its own message if it has none. */
function splitProblem(
  { object }: Manifest,
  said: ConditionProblem,
  problems: readonly Problem[],
): readonly PlacedProblem[] {
  const behind = problems.filter(({ condition }) => condition === said.condition)
  return behind.length === 0 ? [{ message: said.message }] : placeProblems(object, behind)
}

/** Returns the problems of an object with their positions. A problem without one is appended to the one before it. */
function placeProblems(object: KubernetesObject, problems: readonly Problem[]): readonly PlacedProblem[] {
  const placed: { message: string; pointer?: string }[] = []
  for (const problem of problems.map(withoutSecrets)) {
    const pointer = problem.pointer ?? (problem.about && findReference(object, problem.about))
    const previous = placed.at(-1)
    if (problem.pointer === undefined && problem.about === undefined && previous !== undefined)
      previous.message += `; ${formatProblem(problem)}`
    else placed.push({ message: problem.message, ...(pointer === undefined ? {} : { pointer }) })
  }
  return placed
}

/** Returns the pointer of the object's first reference to another one. */
function findReference(object: KubernetesObject, { kind, name }: ObjectName): string | undefined {
  const found = findKind(object.kind)?.references.find(object['spec']) ?? []
  const first = found.find((reference) => reference.kind === kind && reference.name === name)
  return first && `/spec${first.pointer}`
}
