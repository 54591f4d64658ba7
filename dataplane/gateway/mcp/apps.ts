import { isObject } from '../../../crds/settings/json.ts'
import { hasExtension } from './eras.ts'
import { editObject, memberText } from './json.ts'

/** MCP Apps (SEP-1865): a client shows a tool's result on a page that is a resource of the tool's server. */
export const APPS_EXTENSION = 'io.modelcontextprotocol/ui'

/** The capabilities of a client that shows pages and declares nothing else. */
export const WITH_APPS = { extensions: { [APPS_EXTENSION]: { mimeTypes: ['text/html;profile=mcp-app'] } } }

/** The member of a tool's `_meta` that named the page before the extension was stable. */
const OLD_URI = 'ui/resourceUri'

export interface ToolApp {
  readonly uri: string | undefined
  /** True if models may use the tool, and not only the page. */
  readonly isForModel: boolean
}

/** Reads a tool's declarations for MCP Apps; undefined if it has none. */
export function readApp(tool: Readonly<Record<string, unknown>>): ToolApp | undefined {
  const meta = isObject(tool['_meta']) ? tool['_meta'] : {}
  const ui = isObject(meta['ui']) ? meta['ui'] : undefined
  const uri = ui?.['resourceUri'] ?? meta[OLD_URI]
  if (ui === undefined && uri === undefined) return undefined
  const visibility = ui?.['visibility']
  return {
    uri: typeof uri === 'string' ? uri : undefined,
    isForModel: !Array.isArray(visibility) || visibility.includes('model'),
  }
}

/** Returns a tool (JSON text) without the reference to its page. */
export function withoutPage(tool: string): string {
  const meta = memberText(tool, '_meta')
  if (!meta?.startsWith('{')) return tool
  const ui = memberText(meta, 'ui')
  const edits = ui?.startsWith('{') ? { ui: editObject(ui, { resourceUri: undefined }) } : {}
  return editObject(tool, { _meta: editObject(meta, { ...edits, [OLD_URI]: undefined }) })
}

/** Returns a tool (JSON text) with another URI of its page in all places that name it. */
export function withPage(tool: string, uri: string): string {
  const meta = memberText(tool, '_meta')
  if (!meta?.startsWith('{')) return tool
  const ui = memberText(meta, 'ui')
  const text = JSON.stringify(uri)
  const isInUi = ui?.startsWith('{') === true && memberText(ui, 'resourceUri') !== undefined
  return editObject(tool, {
    _meta: editObject(meta, {
      ...(isInUi ? { ui: editObject(ui, { resourceUri: text }) } : {}),
      ...(memberText(meta, OLD_URI) === undefined ? {} : { [OLD_URI]: text }),
    }),
  })
}

/** Tells whether a client with these capabilities shows pages. */
export const showsApps = (capabilities: unknown): boolean => hasExtension(capabilities, APPS_EXTENSION)
