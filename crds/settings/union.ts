import type { CelRule } from './schema.ts'

/** Builds the rules of a union: a block of `blocks` is set exactly if `field` has its value. */
export const blockFor = (field: string, blocks: Readonly<Record<string, string>>): CelRule[] =>
  Object.entries(blocks).map(([value, block]) => ({
    rule: `self.${field} == '${value}' ? has(self.${block}) : !has(self.${block})`,
    message: `${block} must be set when ${field} is ${value}, and only then`,
  }))

/** A CEL rule: at most one of two fields is set. */
export const notBoth = (one: string, other: string): CelRule => ({
  rule: `!(has(self.${one}) && has(self.${other}))`,
  message: `${one} and ${other} exclude each other: set one of them`,
})
