export interface ObjectId {
  readonly kind: string
  readonly namespace: string
  readonly name: string
}

export type Severity = 'error' | 'warning' | 'note'

/** A message about a manifest, with its position. */
export interface ManifestFinding {
  readonly severity: Severity
  /** The kind of the finding: CamelCase and stable. */
  readonly reason: string
  readonly message: string
  /** The path as the caller gave it, joined with the name found below it. */
  readonly file: string
  readonly line: number
  readonly pointer?: string
  readonly object?: ObjectId
}

export const formatObjectKey = (id: ObjectId): string => `${id.kind}/${id.namespace}/${id.name}`
