// How the search of the site orders what it finds: labs and guides before the reference, and files of the repository last.

var Scorer = {
  score: ([docname, , , , score]) => score + (docname.startsWith("docs/") || docname.startsWith("labs/") ? 40 : docname.startsWith("files/") ? -40 : 0),
  objNameMatch: 11,
  objPartialMatch: 4,
  objPrio: { 0: 2, 1: 0, 2: -5 }, // a public name is not better because it is a module
  objPrioDefault: 0,
  title: 45,
  partialTitle: 20,
  term: 5,
  partialTerm: 2,
};
