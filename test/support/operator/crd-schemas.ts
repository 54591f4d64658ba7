/** Walks every node of every kind's schema. */
import { type KindDeclaration, kinds } from '../../../crds/index.ts'
import type { SchemaNode } from '../../../crds/walk.ts'

export const declarations: readonly KindDeclaration[] = Object.values(kinds)

export interface Place {
  /** A readable path: `MCPServer.spec.env[].name`. */
  readonly path: string
  readonly node: SchemaNode
  readonly parent?: SchemaNode
}

function* walk(node: SchemaNode, path: string, parent?: SchemaNode): Generator<Place> {
  yield { path, node, ...(parent ? { parent } : {}) }
  for (const [name, child] of Object.entries(node.properties ?? {})) yield* walk(child, `${path}.${name}`, node)
  if (node.items) yield* walk(node.items, `${path}[]`, node)
  if (typeof node.additionalProperties === 'object') yield* walk(node.additionalProperties, `${path}.*`, node)
}

export const specPlaces = (declaration: KindDeclaration): Place[] => [
  ...walk(declaration.spec as SchemaNode, `${declaration.kind}.spec`),
]

export const statusPlaces = (declaration: KindDeclaration): Place[] => [
  ...walk(declaration.status as SchemaNode, `${declaration.kind}.status`),
]

export const isLeaf = (node: SchemaNode): boolean =>
  Object.keys(node.properties ?? {}).length === 0 && !node.items && typeof node.additionalProperties !== 'object'
