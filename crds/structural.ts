/** From our schemas to the structural OpenAPI schemas of a CustomResourceDefinition. */

import type { KindDeclaration } from './define.ts'
import { rootRules, specMayBeLeftOut, VERSION } from './root.ts'
import type { SchemaNode } from './walk.ts'

/** Keywords of our own, of which the API server must not hear. */
const OWN = new Set(['readBy', 'refusedValues', 'refersTo'])

/** The structural form of one schema: our keywords dropped, the rest as it is. */
export function structural(node: SchemaNode): Record<string, unknown> {
  const result: Record<string, unknown> = {}
  for (const [keyword, value] of Object.entries(node)) {
    if (OWN.has(keyword)) continue
    if (keyword === 'properties') {
      const properties = value as Record<string, SchemaNode>
      result[keyword] = Object.fromEntries(
        Object.keys(properties)
          .sort()
          .map((name) => [name, structural(properties[name] as SchemaNode)]),
      )
    } else if (keyword === 'items') result[keyword] = structural(value as SchemaNode)
    else if (keyword === 'additionalProperties') {
      // `false` beside `properties` is forbidden in a structural schema; unknown fields are dropped or refused anyway.
      if (typeof value === 'object') result[keyword] = structural(value as SchemaNode)
    } else if (keyword === 'required') result[keyword] = [...(value as string[])].sort()
    else result[keyword] = value
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
