/** Whether an image is named by its digest (OCI distribution specification): such a name always means the same image. */
export const isPinned = (image: string): boolean => /@[a-z0-9]+([+._-][a-z0-9]+)*:[0-9a-f]{32,}$/.test(image)
