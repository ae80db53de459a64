export const en = {
  notLoaded: 'The form of the payment provider could not be loaded. Allow its script, or load this page again. Nothing was charged by this.',
  needsScript: 'Paying needs the script of the payment provider. Allow scripts for this page, or use another browser.',
  loading: 'The form of the payment provider is loading.',
}
