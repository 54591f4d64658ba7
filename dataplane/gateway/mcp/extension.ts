import { isObject } from '../../../crds/settings/json.ts'

/** Tells whether these capabilities include this extension. */
export const hasExtension = (capabilities: unknown, name: string): boolean =>
  isObject(capabilities) && isObject(capabilities['extensions']) && name in capabilities['extensions']
