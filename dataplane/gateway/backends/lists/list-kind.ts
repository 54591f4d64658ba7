export type ListKind = 'tools' | 'prompts' | 'resources' | 'templates' | 'skills'
export type ItemKind = Exclude<ListKind, 'tools'>
export const ITEM_KINDS = ['prompts', 'resources', 'templates', 'skills'] as const satisfies readonly ItemKind[]

/** Builds a record with a value for each kind of list. */
export const forEachKind = <T>(make: () => T): Record<ListKind, T> => ({
  tools: make(),
  prompts: make(),
  resources: make(),
  templates: make(),
  skills: make(),
})

/** The kinds whose definitions can be approved. */
export type PinnedKind = Exclude<ListKind, 'skills'>
export const PINNED_KINDS = ['tools', 'prompts', 'resources', 'templates'] as const satisfies readonly PinnedKind[]

export interface ListForm {
  readonly method: string
  /** The member of the result that holds the list. */
  readonly member: string
  readonly capability: 'tools' | 'prompts' | 'resources'
  /** The member that identifies an item. */
  readonly key: string
}

export const listForms: Readonly<Record<ListKind, ListForm>> = {
  tools: { method: 'tools/list', member: 'tools', capability: 'tools', key: 'name' },
  prompts: { method: 'prompts/list', member: 'prompts', capability: 'prompts', key: 'name' },
  resources: { method: 'resources/list', member: 'resources', capability: 'resources', key: 'uri' },
  templates: {
    method: 'resources/templates/list',
    member: 'resourceTemplates',
    capability: 'resources',
    key: 'uriTemplate',
  },
  skills: { method: 'skills/list', member: 'skills', capability: 'resources', key: 'uri' },
}

/** Returns the name that a kind of list has in pins. */
export const toPinKind = (kind: PinnedKind): 'tools' | 'prompts' | 'resources' | 'resourceTemplates' =>
  kind === 'templates' ? 'resourceTemplates' : kind

export const TOOLS_CHANGED = 'notifications/tools/list_changed'
const LIST_CHANGED: ReadonlySet<unknown> = new Set([
  TOOLS_CHANGED,
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
])

/** Tells whether a message of this method, which may be any JSON value, reports a changed list. */
export const isListChanged = (method: unknown): boolean => LIST_CHANGED.has(method)
