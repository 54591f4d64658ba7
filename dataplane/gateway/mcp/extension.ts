import { isObject } from '../../../crds/shared/json.ts'

/** Whether these capabilities have this extension. */
export const hasExtension = (capabilities: unknown, name: string): boolean =>
  isObject(capabilities) && isObject(capabilities['extensions']) && name in capabilities['extensions']
