label "a" {}
<<<<<<< HEAD
label "b" {}
=======
label "c" {}
>>>>>>> other
