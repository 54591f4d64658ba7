/** From our schemas to the structural OpenAPI schemas of a CustomResourceDefinition. */

import type { KindDeclaration } from './define.ts'
import { rootRules, specMayBeLeftOut, VERSION } from './root.ts'
import { type CelRule, OWN_KEYWORDS } from './settings/schema.ts'
import type { SchemaNode } from './walk.ts'

const OWN: ReadonlySet<string> = new Set(OWN_KEYWORDS)

/** A default as CEL has it. */
const literal = (value: unknown): string => (typeof value === 'string' ? `'${value}'` : String(value))

/** A rule of a list's item: it reads a property by its default where that is absent, because nobody fills it in. */
function withoutDefaults(rule: CelRule, properties: Properties = {}): CelRule {
  const defaultOf = (name: string) => (Object.hasOwn(properties, name) ? properties[name]?.default : undefined)
  const text = rule.rule.replaceAll(
    /(has\()?\bself\.([A-Za-z]+)\b/g,
    (read, asked: string | undefined, name: string) =>
      asked || defaultOf(name) === undefined ? read : `(has(${read}) ? ${read} : ${literal(defaultOf(name))})`,
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

/** Properties that have to be there, but those that get a default where an object is read. */
function requiredOf(names: readonly string[], properties: Properties = {}): string[] | undefined {
  const kept = names.filter((name) => properties[name]?.default === undefined).sort()
  return kept.length === 0 ? undefined : kept
}

/** The value of one keyword; undefined where the API server is not to have it. */
function structuralValue(keyword: string, value: unknown, node: SchemaNode, isInItem: boolean): unknown {
  switch (keyword) {
    case 'properties':
      return structuralProperties(value as Properties, isInItem)
    case 'items':
      return structural(value as SchemaNode, true)
    case 'additionalProperties':
      // `false` beside `properties` is forbidden in a structural schema; unknown fields are dropped or refused anyway.
      return typeof value === 'object' ? structural(value as SchemaNode, isInItem) : undefined
    case 'required':
      return requiredOf(value as readonly string[], isInItem ? node.properties : {})
    case 'propertyNames':
      // Not in structural schemas: a rule says the same.
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
 * The structural form of one schema: our keywords dropped, the rest as it is. Inside items of lists there are no defaults: a
 * list is one value to a client-side apply and to a three-way comparison, so that one with defaults never equals the one
 * that was applied. Whoever reads an object fills them in (`completed`).
 */
export function structural(node: SchemaNode, isInItem = false): Record<string, unknown> {
  const result: Record<string, unknown> = {}
  for (const [keyword, value] of Object.entries(node)) {
    const kept = OWN.has(keyword) ? undefined : structuralValue(keyword, value, node, isInItem)
    if (kept !== undefined) result[keyword] = kept
  }
  return result
}

const plainText = (description: string) => ({ description, type: 'string' })

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
      status: structural(declaration.status as SchemaNode),
    },
    ...(specMayBeLeftOut(declaration) ? {} : { required: ['spec'] }),
    ...(rules.length === 0 ? {} : { 'x-kubernetes-validations': rules }),
  }
}

/** The CustomResourceDefinition of a kind in an API group. */
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
