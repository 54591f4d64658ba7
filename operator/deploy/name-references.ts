import type { KindDeclaration } from '../../crds/define.ts'
import { VERSION } from '../../crds/index.ts'
import { findValueSchema, type SchemaNode } from '../../crds/walk.ts'
import { canonicalYaml } from '../render/object/canonical.ts'
import { HEADER } from './kustomize.ts'

interface FieldSpec {
  readonly group: string
  readonly kind: string
  readonly path: string
}

interface NameReference {
  readonly kind: string
  readonly group?: string
  readonly version: string
  readonly fieldSpecs: readonly FieldSpec[]
}

type Place = readonly [named: string, path: string]

/** The fields below a pod's spec that name Secrets and other objects. */
const IN_PODS: readonly Place[] = [
  ...['containers', 'initContainers'].flatMap((list): Place[] => [
    ['Secret', `${list}/env/valueFrom/secretKeyRef/name`],
    ['Secret', `${list}/envFrom/secretRef/name`],
    ['ConfigMap', `${list}/env/valueFrom/configMapKeyRef/name`],
    ['ConfigMap', `${list}/envFrom/configMapRef/name`],
  ]),
  ['Secret', 'imagePullSecrets/name'],
  ['ServiceAccount', 'serviceAccountName'],
]
const IN_VOLUMES: readonly Place[] = [
  ['Secret', 'secret/secretName'],
  ['Secret', 'projected/sources/secret/name'],
  ['ConfigMap', 'configMap/name'],
  ['ConfigMap', 'projected/sources/configMap/name'],
  ['PersistentVolumeClaim', 'persistentVolumeClaim/claimName'],
]

const below = (path: string, places: readonly Place[]): readonly Place[] =>
  places.map(([kind, inner]) => [kind, `${path}/${inner}`])

/** Fields that are passed on to pods, and fields that name other objects. */
const OF_WORKLOADS: readonly Place[] = [
  ...below('spec/podTemplateSpec/spec', IN_PODS),
  ...below('spec/podTemplateSpec/spec/volumes', IN_VOLUMES),
  ['Secret', 'spec/imagePullSecrets/name'],
  ['Secret', 'spec/resourceOverrides/proxyDeployment/imagePullSecrets/name'],
  ['ServiceAccount', 'spec/serviceAccount'],
  ['Gateway', 'spec/httpRoute/parentRefs/name'],
]
const OF_KINDS: Readonly<Record<string, readonly Place[]>> = {
  MCPRegistry: [...below('spec/volumes', IN_VOLUMES), ['PersistentVolumeClaim', 'spec/storage/claimName']],
  // The members of a group are referenced by their names.
  VirtualMCPServer: ['MCPServer', 'MCPRemoteProxy', 'MCPServerEntry'].flatMap((kind): Place[] => [
    [kind, 'spec/config/aggregation/tools/workload'],
    [kind, 'spec/config/aggregation/skills/workload'],
  ]),
}

/** Returns every field below a schema that names an object. Kustomize finds nothing under keys that people choose. */
function collectPlaces(node: SchemaNode, path: string): readonly Place[] {
  const own = [node.refersTo ?? []].flat().map((kind): Place => [kind, path])
  const inner = Object.entries(node.properties ?? {}).flatMap(([name, child]) =>
    collectPlaces(child, `${path}/${name}`),
  )
  return [...own, ...inner, ...(node.items ? collectPlaces(node.items, path) : [])]
}

/** Returns fields that `nameReference` can't express: they are in maps with keys that users choose. */
export function unreachablePlaces(node: SchemaNode, path = 'spec'): readonly string[] {
  const values = findValueSchema(node)
  return [
    ...(values ? collectPlaces(values, `${path}/*`).map(([, place]) => place) : []),
    ...Object.entries(node.properties ?? {}).flatMap(([name, child]) => unreachablePlaces(child, `${path}/${name}`)),
    ...(node.items ? unreachablePlaces(node.items, path) : []),
  ]
}

/** Returns every field of a kind that names an object. */
const findPlaces = ({ kind, role, spec }: KindDeclaration): readonly Place[] => [
  ...collectPlaces(spec as SchemaNode, 'spec'),
  ...(role === 'workload' ? OF_WORKLOADS : []),
  ...(OF_KINDS[kind] ?? []),
]

/** Groups of kinds that are neither ours nor of the core. */
const GROUPS: Readonly<Record<string, string>> = { Gateway: 'gateway.networking.k8s.io' }

/** Returns kustomize's `nameReference` for our kinds, so that references follow changed names. */
export function findNameReferences(kinds: readonly KindDeclaration[], group: string): readonly NameReference[] {
  const places = kinds.flatMap((declaration) =>
    findPlaces(declaration).map(([named, path]) => ({ named, field: { group, kind: declaration.kind, path } })),
  )
  const isOurs = (named: string) => kinds.some(({ kind }) => kind === named)
  const findGroup = (named: string) => (isOurs(named) ? group : GROUPS[named])
  return [...new Set(places.map(({ named }) => named))].sort().map((named) => {
    const fields = places.filter((place) => place.named === named).map(({ field }) => field)
    const own = findGroup(named)
    return {
      kind: named,
      ...(own === undefined ? {} : { group: own }),
      version: isOurs(named) ? VERSION : 'v1',
      fieldSpecs: [...new Map(fields.map((field) => [`${field.kind}/${field.path}`, field])).values()],
    }
  })
}

const FILE = 'configuration.yaml'

/** Returns a component for overlays with objects of ours, by path below operator/deploy/name-references. */
export const buildNameReferenceFiles = (kinds: readonly KindDeclaration[], group: string): Map<string, string> =>
  new Map([
    [
      'kustomization.yaml',
      HEADER +
        canonicalYaml({
          apiVersion: 'kustomize.config.k8s.io/v1alpha1',
          kind: 'Component',
          configurations: [FILE],
        }),
    ],
    [FILE, HEADER + canonicalYaml({ nameReference: findNameReferences(kinds, group) })],
  ])
