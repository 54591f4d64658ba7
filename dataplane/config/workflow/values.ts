import { at, isObject } from '../../../crds/settings/json.ts'
import type { Finding } from '../load.ts'
import { workflowLimits } from './limits.ts'
import { parseTemplate } from './parse-template.ts'
import { type Path, type Template, TemplateError } from './template.ts'

/** JSON in which texts may be templates. */
export type Values =
  | { readonly kind: 'constant'; readonly value: unknown }
  | { readonly kind: 'template'; readonly template: Template }
  | { readonly kind: 'list'; readonly items: readonly Values[] }
  | { readonly kind: 'object'; readonly members: readonly (readonly [name: string, value: Values])[] }

/** The place of a template, and its references. */
export interface Use {
  readonly pointer: string
  readonly paths: readonly Path[]
  readonly itemName?: string
}

/** Collects the templates of a definition and all problems of its texts. */
export class Reading {
  readonly findings: Finding[] = []

  find(pointer: string, message: string): void {
    this.findings.push({ pointer, message })
  }

  /** Parses a template. An invalid text gives an empty template. */
  template(text: string, pointer: string, uses: Use[]): Template {
    try {
      const template = parseTemplate(text)
      uses.push({ pointer, paths: template.paths })
      return template
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error
      this.find(pointer, `is not a valid template: ${error.message} (character ${error.at + 1})`)
      return NONE
    }
  }

  values(value: unknown, pointer: string, uses: Use[], depth: number = workflowLimits.depth): Values {
    if (typeof value === 'string' && value.includes('{{'))
      return { kind: 'template', template: this.template(value, pointer, uses) }
    if (typeof value !== 'object' || value === null) return { kind: 'constant', value }
    if (depth === 0) {
      this.find(pointer, `is nested deeper than ${workflowLimits.depth} levels`)
      return { kind: 'constant', value: null }
    }
    const inner = (one: unknown, step: string | number) => this.values(one, at(pointer, step), uses, depth - 1)
    if (Array.isArray(value)) return { kind: 'list', items: value.map(inner) }
    const members = Object.entries(isObject(value) ? value : {})
    return { kind: 'object', members: members.map(([name, one]) => [name, inner(one, name)] as const) }
  }
}

const NONE: Template = { parts: [], whole: undefined, paths: [] }
