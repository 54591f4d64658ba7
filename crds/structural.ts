/** Builds CustomResourceDefinitions from our schemas, whose structural OpenAPI form they hold, and writes them as YAML. */

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { type KindDeclaration, rootRules, specMayBeLeftOut, VERSION } from './define.ts'
import { kinds } from './kinds/index.ts'
import { type CelRule, OWN_KEYWORDS } from './settings/schema.ts'
import type { SchemaNode } from './walk.ts'

const OWN: ReadonlySet<string> = new Set(OWN_KEYWORDS)

const literal = (value: unknown): string => (typeof value === 'string' ? `'${value}'` : String(value))

/** Rewrites a rule of a list's item: it reads the default of an absent property, because nobody fills it in. */
function withoutDefaults(rule: CelRule, properties: Properties = {}): CelRule {
  const readDefault = (name: string) => (Object.hasOwn(properties, name) ? properties[name]?.default : undefined)
  const text = rule.rule.replaceAll(
    /(has\()?\bself\.([A-Za-z]+)\b/g,
    (read, asked: string | undefined, name: string) =>
      asked || readDefault(name) === undefined ? read : `(has(${read}) ? ${read} : ${literal(readDefault(name))})`,
  )
  return { ...rule, rule: text }
}

type Properties = Readonly<Record<string, SchemaNode>>

const structuralProperties = (properties: Properties, isInItem: boolean) =>
  Object.fromEntries(
    Object.keys(properties)
      .sort()
      .map((name) => [name, structural(properties[name] as SchemaNode, isInItem)]),
  )

/** Returns the required properties, without those that get a default when an object is read. */
function listRequired(names: readonly string[], properties: Properties = {}): string[] | undefined {
  const kept = names.filter((name) => properties[name]?.default === undefined).sort()
  return kept.length === 0 ? undefined : kept
}

/** Returns the value of one keyword, or undefined if the API server must not get it. */
function structuralValue(keyword: string, value: unknown, node: SchemaNode, isInItem: boolean): unknown {
  switch (keyword) {
    case 'properties':
      return structuralProperties(value as Properties, isInItem)
    case 'items':
      return structural(value as SchemaNode, true)
    case 'additionalProperties':
      // A structural schema forbids `false` beside `properties`. Unknown fields are dropped or refused anyway.
      return typeof value === 'object' ? structural(value as SchemaNode, isInItem) : undefined
    case 'required':
      return listRequired(value as readonly string[], isInItem ? node.properties : {})
    case 'propertyNames':
      // Structural schemas lack this keyword. A CEL rule replaces it.
      return undefined
    case 'default':
      return isInItem ? undefined : value
    case 'x-kubernetes-validations':
      return isInItem ? (value as readonly CelRule[]).map((rule) => withoutDefaults(rule, node.properties)) : value
    default:
      return value
  }
}

/**
 * Returns the structural form of a schema. Items of lists have no defaults: a client-side apply compares a list as one
 * value, and would never find it equal. `completed` fills them in.
 */
function structural(node: SchemaNode, isInItem = false): Record<string, unknown> {
  const result: Record<string, unknown> = {}
  for (const [keyword, value] of Object.entries(node)) {
    const kept = OWN.has(keyword) ? undefined : structuralValue(keyword, value, node, isInItem)
    if (kept !== undefined) result[keyword] = kept
  }
  return result
}

const plainText = (description: string) => ({ description, type: 'string' })

/**
 * The status of an object that no operator has looked at yet. Without a status kstatus takes an object for healthy, and Flux
 * would go on to what depends on it. The first generation is 1.
 */
const UNSEEN = { observedGeneration: 0 } as const

const rootSchema = (declaration: KindDeclaration) => {
  const rules = rootRules(declaration)
  return {
    description: declaration.description,
    type: 'object',
    properties: {
      apiVersion: plainText('Group and version of this object.'),
      kind: plainText('Kind of this object.'),
      metadata: { type: 'object' },
      spec: {
        ...structural(declaration.spec as SchemaNode),
        ...(specMayBeLeftOut(declaration) ? { default: {} } : {}),
      },
      status: { ...structural(declaration.status as SchemaNode), default: UNSEEN },
    },
    ...(specMayBeLeftOut(declaration) ? {} : { required: ['spec'] }),
    ...(rules.length === 0 ? {} : { 'x-kubernetes-validations': rules }),
  }
}

/** Builds the CustomResourceDefinition of a kind in an API group. */
export const crdFor = (declaration: KindDeclaration, group: string) => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: {
    name: `${declaration.plural}.${group}`,
    labels: { 'app.kubernetes.io/name': 'portico', 'app.kubernetes.io/part-of': 'portico' },
  },
  spec: {
    group,
    scope: 'Namespaced',
    names: {
      kind: declaration.kind,
      listKind: `${declaration.kind}List`,
      plural: declaration.plural,
      singular: declaration.kind.toLowerCase(),
      shortNames: [...declaration.shortNames],
      categories: ['portico'],
    },
    versions: [
      {
        name: VERSION,
        served: true,
        storage: true,
        subresources: { status: {} },
        additionalPrinterColumns: declaration.columns.map((column) => ({ ...column })),
        schema: { openAPIV3Schema: rootSchema(declaration) },
      },
    ],
  },
})

/** The API group of the committed files. */
export const DEFAULT_GROUP = 'portico.dev'

const yaml = (value: object) => stringify(value, { aliasDuplicateObjects: false, lineWidth: 0 })

const fileName = ({ plural }: KindDeclaration) => `${plural}.yaml`

export function crdFiles(group: string): ReadonlyMap<string, string> {
  const declarations: readonly KindDeclaration[] = Object.values(kinds)
  const files = new Map(declarations.map((declaration) => [fileName(declaration), yaml(crdFor(declaration, group))]))
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: [...files.keys()].sort(),
  }
  return files.set('kustomization.yaml', yaml(kustomization))
}

/** Returns all definitions as one YAML stream, sorted by name. */
export const crdsYaml = (group: string): string =>
  Object.values<KindDeclaration>(kinds)
    .toSorted((one, other) => (one.plural < other.plural ? -1 : 1))
    .map((declaration) => yaml(crdFor(declaration, group)))
    .join('---\n')

/** Writes one file per kind and a kustomization.yaml into a folder. Returns the names of the files. */
export async function writeCrds(directory: string, group: string): Promise<readonly string[]> {
  await mkdir(directory, { recursive: true })
  const files = crdFiles(group)
  for (const [name, content] of files) await writeFile(join(directory, name), content)
  return [...files.keys()]
}
