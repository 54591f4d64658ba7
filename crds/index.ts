/** The public interface of the custom resources. */
export { applyDefaults, completed, type Unsupported, unsupportedFields } from './defaults.ts'
export type { KindDeclaration, ObjectMeta, ObjectOf, Reference } from './define.ts'
export { formatApiVersion, VERSION } from './define.ts'
export * from './kinds/index.ts'
export { crdFor, crdsYaml, DEFAULT_GROUP, writeCrds } from './structural.ts'
export type { Finding } from './structure.ts'
export { validateObject, validateStatus } from './validate.ts'
