import { isObject } from '../../../crds/settings/json.ts'
import { hasExtension } from './extension.ts'
import { editObject, memberText } from './json.ts'

/** MCP Apps (SEP-1865): a client shows what a tool gives by a page that the tool's server has as a resource. */
export const APPS_EXTENSION = 'io.modelcontextprotocol/ui'

/** Capabilities of a client that shows pages, and can do nothing else. */
export const WITH_APPS = { extensions: { [APPS_EXTENSION]: { mimeTypes: ['text/html;profile=mcp-app'] } } }

/** Member of a tool's `_meta` that named the page before the extension was stable. */
const OLD_URI = 'ui/resourceUri'

/** What a tool says of apps. */
export interface ToolApp {
  /** URI of the page. */
  readonly uri: string | undefined
  /** Whether it is for models as well, and not for the page alone. */
  readonly isForModel: boolean
}

/** Undefined where a tool says nothing of apps. */
export function appOf(tool: Readonly<Record<string, unknown>>): ToolApp | undefined {
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

/** A tool (JSON text) that names no page. */
export function withoutPage(tool: string): string {
  const meta = memberText(tool, '_meta')
  if (!meta?.startsWith('{')) return tool
  const ui = memberText(meta, 'ui')
  const edits = ui?.startsWith('{') ? { ui: editObject(ui, { resourceUri: undefined }) } : {}
  return editObject(tool, { _meta: editObject(meta, { ...edits, [OLD_URI]: undefined }) })
}

/** Whether a client with these capabilities shows pages. */
export const showsApps = (capabilities: unknown): boolean => hasExtension(capabilities, APPS_EXTENSION)
