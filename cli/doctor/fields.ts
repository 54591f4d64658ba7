import type { Manifest } from '../../operator/cluster/files/index.ts'

export type Fields = Readonly<Record<string, unknown>>

export const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null

/** Returns the object in a field; an empty one if there is none. */
export const readFields = (parent: unknown, name: string): Fields => {
  const value = isFields(parent) ? parent[name] : undefined
  return isFields(value) ? value : {}
}

/** Returns the objects in a list; none if it is no list. */
export const readList = (parent: Fields, name: string): readonly Fields[] => {
  const value = parent[name]
  return Array.isArray(value) ? value.filter(isFields) : []
}

export const readText = (parent: Fields, name: string): string | undefined => {
  const value = parent[name]
  return typeof value === 'string' ? value : undefined
}

export const readTexts = (parent: Fields, name: string): readonly string[] => {
  const value = parent[name]
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}

export const distinct = (texts: readonly (string | undefined)[]) =>
  [...new Set(texts.filter((text) => text !== undefined && text !== ''))] as string[]

export const readSpec = ({ object }: Manifest): Fields => readFields(object, 'spec')
export const formatPlace = ({ id: { kind, namespace, name } }: Manifest) => `${kind} ${namespace}/${name}`
